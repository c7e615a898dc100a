# SPDX-License-Identifier: Apache-2.0
# Finds what the core links, and defines one macro per engine for what only that engine links.
# docs/reference/dependencies.md lists every dependency with its version, reason and licence.

set(XRT_HOW_TO_INSTALL "Run ./dev setup, which installs it, or see docs/reference/dependencies.md.")

# --- the Python whose site-packages hold oneDNN, OpenVINO, XLA and nanobind --------------------
# The Python package alone needs it. Without a Python XRT_LIBRARY_PREFIX says where the libraries lie.
if(NOT Python_EXECUTABLE AND NOT SKBUILD AND EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${CMAKE_SOURCE_DIR}/.venv/bin/python")
endif()
set(Python_FIND_VIRTUALENV FIRST)
if(XRT_BUILD_PYTHON)
  # A wheel for Python 3.12 and later has the stable ABI; scikit-build-core says so.
  find_package(Python 3.10 COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
  if(NOT Python_FOUND)
    message(FATAL_ERROR "Python 3.10 or newer with its headers was not found (Debian: "
                        "python3-dev). ${XRT_HOW_TO_INSTALL}")
  endif()
else()
  find_package(Python 3.10 QUIET COMPONENTS Interpreter)
endif()
if(Python_FOUND)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import sys, sysconfig; print(sysconfig.get_path('purelib'), sys.prefix, sep=';')"
    OUTPUT_VARIABLE xrt_python_paths
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(GET xrt_python_paths 0 XRT_SITE_PACKAGES)
  list(GET xrt_python_paths 1 XRT_PYTHON_PREFIX)
  # An isolated `pip install .` keeps its build requirements in a folder of its own.
  execute_process(
    COMMAND
      "${Python_EXECUTABLE}" -c
      "import importlib.util as u, pathlib; s = u.find_spec('nanobind'); \
print(pathlib.Path(s.origin).parent.parent if s else '')"
    OUTPUT_VARIABLE xrt_overlay
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(xrt_overlay AND NOT xrt_overlay STREQUAL XRT_SITE_PACKAGES)
    set(XRT_SITE_PACKAGES "${xrt_overlay}")
    cmake_path(GET XRT_SITE_PACKAGES PARENT_PATH XRT_PYTHON_PREFIX)
    cmake_path(GET XRT_PYTHON_PREFIX PARENT_PATH XRT_PYTHON_PREFIX)
    cmake_path(GET XRT_PYTHON_PREFIX PARENT_PATH XRT_PYTHON_PREFIX)
  endif()
else()
  set(XRT_LIBRARY_PREFIX "" CACHE PATH "Folder with lib/libdnnl.so.3, without Python")
  set(XRT_PYTHON_PREFIX "${XRT_LIBRARY_PREFIX}")
endif()

# --- Debian packages ---------------------------------------------------------------------------
macro(xrt_require_debian package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found (Debian: ${debian}). ${XRT_HOW_TO_INSTALL}")
  endif()
endmacro()

xrt_require_debian(Threads libc6-dev)
xrt_require_debian(Protobuf libprotobuf-dev MODULE)
xrt_require_debian(fmt libfmt-dev CONFIG)
xrt_require_debian(spdlog libspdlog-dev CONFIG)
xrt_make_static(fmt::fmt fmt)
xrt_make_static(spdlog::spdlog spdlog)
xrt_require_debian(nlohmann_json nlohmann-json3-dev CONFIG)
xrt_require_debian(CLI11 libcli11-dev CONFIG)

# xrt_require_library(NAME HEADER LIBRARY DEBIAN): the target xrt::NAME of a library that ships no file for
# CMake.
function(xrt_require_library name header library debian)
  string(TOUPPER "XRT_${name}" variable)
  find_path(${variable}_INCLUDE NAMES "${header}")
  find_library(${variable}_LIBRARY NAMES "${library}")
  if(NOT ${variable}_INCLUDE OR NOT ${variable}_LIBRARY)
    message(FATAL_ERROR "${name} was not found (Debian: ${debian}). ${XRT_HOW_TO_INSTALL}")
  endif()
  mark_as_advanced(${variable}_INCLUDE ${variable}_LIBRARY)
  add_library(xrt_${name} INTERFACE)
  add_library(xrt::${name} ALIAS xrt_${name})
  target_include_directories(xrt_${name} SYSTEM INTERFACE "${${variable}_INCLUDE}")
  target_link_libraries(xrt_${name} INTERFACE "${${variable}_LIBRARY}")
endfunction()

xrt_require_library(xxhash xxhash.h xxhash libxxhash-dev)
xrt_require_library(re2 re2/re2.h re2 libre2-dev)
xrt_require_library(utf8proc utf8proc.h utf8proc libutf8proc-dev)

# TBB. oneDNN's and OpenVINO's wheels bring their own libtbb.so.12; one process must hold one copy,
# and the first one loaded serves all of them. So libxrt names the wheel's, which is newer than
# Debian's; Debian's headers are older than either and fit both.
find_path(XRT_TBB_INCLUDE NAMES oneapi/tbb/version.h)
if(NOT XRT_TBB_INCLUDE)
  message(FATAL_ERROR "TBB's headers were not found (Debian: libtbb-dev). ${XRT_HOW_TO_INSTALL}")
endif()
find_library(XRT_TBB_LIBRARY NAMES libtbb.so.12 tbb HINTS "${XRT_PYTHON_PREFIX}/lib"
             NO_CMAKE_SYSTEM_PATH NO_SYSTEM_ENVIRONMENT_PATH)
find_library(XRT_TBB_LIBRARY NAMES libtbb.so.12 tbb)
mark_as_advanced(XRT_TBB_INCLUDE XRT_TBB_LIBRARY)
add_library(xrt_tbb INTERFACE)
add_library(xrt::tbb ALIAS xrt_tbb)
target_include_directories(xrt_tbb SYSTEM INTERFACE "${XRT_TBB_INCLUDE}")
target_link_libraries(xrt_tbb INTERFACE "${XRT_TBB_LIBRARY}")

# --- the ONNX C++ library, built by tools/build_onnx.sh ---------------------------------------
set(XRT_ONNX_VERSION 1.23.2)
if(DEFINED ENV{XRT_DEPS_DIR})
  set(xrt_deps_dir "$ENV{XRT_DEPS_DIR}")
else()
  set(xrt_deps_dir "$ENV{HOME}/.cache/openxrt")
endif()
# Its rules for shapes see hostile models: tests of memory watch them, too.
set(xrt_onnx_kind "")
if(XRT_SANITIZE STREQUAL "address")
  set(xrt_onnx_kind "-address-${CMAKE_CXX_COMPILER_ID}")
endif()
set(XRT_ONNX_ROOT "${xrt_deps_dir}/xrt-onnx-${XRT_ONNX_VERSION}${xrt_onnx_kind}"
    CACHE PATH "Install prefix of the ONNX C++ library")
if(NOT EXISTS "${XRT_ONNX_ROOT}/lib/libonnx.a" AND EXISTS "${CMAKE_SOURCE_DIR}/tools/build_onnx.sh")
  message(STATUS "Building the ONNX C++ library ${XRT_ONNX_VERSION} (a minute on two cores)")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env "XRT_PYTHON=${Python_EXECUTABLE}" "CC=${CMAKE_C_COMPILER}"
            "CXX=${CMAKE_CXX_COMPILER}" "${CMAKE_SOURCE_DIR}/tools/build_onnx.sh"
            "${XRT_ONNX_ROOT}" ${XRT_SANITIZE}
    RESULT_VARIABLE xrt_onnx_result)
endif()
# The header is there where it was built with the namespace that is expected.
if(NOT EXISTS "${XRT_ONNX_ROOT}/lib/libonnx.a"
   OR NOT EXISTS "${XRT_ONNX_ROOT}/lib/libonnx_proto.a"
   OR NOT EXISTS "${XRT_ONNX_ROOT}/include/onnx/onnx_xrt_onnx-ml.pb.h")
  message(FATAL_ERROR "The ONNX C++ library ${XRT_ONNX_VERSION} was not found in "
                      "${XRT_ONNX_ROOT} (set XRT_ONNX_ROOT or XRT_DEPS_DIR). "
                      "${XRT_HOW_TO_INSTALL}")
endif()
add_library(xrt_onnx INTERFACE)
add_library(xrt::onnx ALIAS xrt_onnx)
target_include_directories(xrt_onnx SYSTEM INTERFACE "${XRT_ONNX_ROOT}/include")
target_compile_definitions(xrt_onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=xrt_onnx)
target_link_libraries(xrt_onnx INTERFACE "${XRT_ONNX_ROOT}/lib/libonnx.a"
                                         "${XRT_ONNX_ROOT}/lib/libonnx_proto.a"
                                         protobuf::libprotobuf)

# --- what the Python bindings alone need ---------------------------------------------------------
# nanobind, for the Python bindings.
macro(xrt_find_nanobind)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE xrt_nanobind_result ERROR_QUIET)
  if(NOT xrt_nanobind_result EQUAL 0)
    message(FATAL_ERROR "nanobind was not found by ${Python_EXECUTABLE} (PyPI: nanobind). "
                        "${XRT_HOW_TO_INSTALL}")
  endif()
  find_package(nanobind CONFIG REQUIRED)
endmacro()
