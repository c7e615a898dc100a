# SPDX-License-Identifier: Apache-2.0
# The functions with which the folders of the project declare their targets.
#
# The build tree, an installed tree and the wheel share one layout, so one set of relative RPATHs serves
# them, and none of an installed file names a folder of the machine that built it:
#   bin/xrt   lib/libxrt.so.<version>   lib/xrt/engines/libxrt_engine_<name>.so   lib/xrt/vendor/
include(OpenXRTEngine)
include(XrtUnity)

if(SKBUILD)
  set(XRT_INSTALL_BINDIR "openxrt/bin")
  set(XRT_INSTALL_LIBDIR "openxrt/lib")
  set(XRT_INSTALL_INCLUDEDIR "openxrt/include")
else()
  set(XRT_INSTALL_BINDIR "${CMAKE_INSTALL_BINDIR}")
  set(XRT_INSTALL_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
  set(XRT_INSTALL_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
endif()

# libxrt.so itself, still without sources.
function(xrt_add_core_library)
  add_library(xrt SHARED)
  add_library(OpenXRT::xrt ALIAS xrt)
  target_compile_features(xrt PUBLIC cxx_std_20)
  target_include_directories(
    xrt
    PUBLIC "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>"
           "$<INSTALL_INTERFACE:${XRT_INSTALL_INCLUDEDIR}>"
    PRIVATE "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(
    xrt PRIVATE xrt::onnx xrt::tbb xrt::utf8proc xrt::xxhash fmt::fmt spdlog::spdlog
                nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
  # The library exports namespace xrt: the command, the bindings, the engines and the tests are
  # built with it. XRT_API marks the part of it that is public. All else (ONNX, templates of the
  # standard library) stays inside, so that it cannot clash with another copy in the process.
  target_compile_options(xrt PRIVATE -fno-semantic-interposition)
  xrt_library_link_options(xrt)
  target_link_options(xrt PRIVATE "LINKER:--version-script,${CMAKE_SOURCE_DIR}/cmake/libxrt.map")
  if(SKBUILD)
    # TBB lies where pip puts the data files of packages: lib/ of the environment.
    set(install_rpath "$ORIGIN;$ORIGIN/../../../..")
  else()
    set(install_rpath "$ORIGIN;$ORIGIN/xrt/vendor/tbb")
    xrt_install_vendor(tbb "${XRT_TBB_LIBRARY}")
  endif()
  set_target_properties(
    xrt
    PROPERTIES CXX_VISIBILITY_PRESET default
               VISIBILITY_INLINES_HIDDEN OFF
               LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/libxrt.map"
               BUILD_RPATH "${XRT_PYTHON_PREFIX}/lib"
               INSTALL_RPATH "${install_rpath}"
               SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
               EXPORT_NAME xrt)
  # A wheel holds no links: there the library bears the name that engines ask for, and no other.
  set(namelink "")
  if(SKBUILD)
    set(namelink NAMELINK_SKIP)
  endif()
  install(TARGETS xrt EXPORT OpenXRTTargets
          LIBRARY DESTINATION "${XRT_INSTALL_LIBDIR}" COMPONENT OpenXRT ${namelink})
endfunction()

# Adds the sources of src/<room> to libxrt.
function(xrt_add_room room)
  set(folder "${CMAKE_SOURCE_DIR}/src/${room}")
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cc")
  target_sources(xrt PRIVATE ${sources})
  if(EXISTS "${folder}/CMakeLists.txt")
    add_subdirectory("${folder}")
  endif()
endfunction()

# Reads <folder>/CMakeLists.txt where there is one.
function(xrt_add_optional_folder folder)
  if(EXISTS "${CMAKE_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory("${CMAKE_SOURCE_DIR}/${folder}")
  endif()
endfunction()

# xrt_internal_target(TARGET): gives a target of this repository the internal headers (src/).
function(xrt_internal_target target)
  target_include_directories(${target} BEFORE PRIVATE "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE xrt)
endfunction()

# Reads the CMakeLists.txt of every folder of src/engines. What they add with xrt_add_engine becomes part
# of this tree: it has the internal headers, lies in lib/xrt/engines and is installed, with VENDOR, the
# vendor's libraries, in lib/xrt/vendor/<name>. An engine whose target has the property XRT_FOLDER lies
# in that folder instead and is not installed.
function(xrt_add_engine_folders)
  file(GLOB folders CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/engines/*/CMakeLists.txt")
  foreach(file IN LISTS folders)
    cmake_path(GET file PARENT_PATH folder)
    add_subdirectory("${folder}")
  endforeach()
  get_property(engines GLOBAL PROPERTY XRT_ENGINES)
  foreach(target IN LISTS engines)
    xrt_internal_target(${target})
    get_target_property(folder ${target} XRT_FOLDER)
    if(folder)
      set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY
                                                 "${CMAKE_BINARY_DIR}/lib/xrt/${folder}")
      continue()
    endif()
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY
                                               "${CMAKE_BINARY_DIR}/lib/xrt/engines")
    install(TARGETS ${target} LIBRARY DESTINATION "${XRT_INSTALL_LIBDIR}/xrt/engines"
                                      COMPONENT OpenXRT)
    get_target_property(sources ${target} SOURCE_DIR)
    string(REPLACE "xrt_engine_" "" name ${target})
    if(EXISTS "${sources}/engine.json")
      xrt_engine_manifest("${name}" "${sources}/engine.json")
    endif()
    get_target_property(vendor ${target} XRT_VENDOR)
    if(vendor AND NOT SKBUILD)
      # Of libxrt's own vendor an engine needs what libxrt does not: TBB.
      set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../vendor/${name}"
                                                    "$ORIGIN/../vendor/tbb")
      xrt_install_vendor("${name}" ${vendor})
    endif()
  endforeach()
endfunction()

# xrt_engine_manifest(NAME file): what must be known of an engine that is not open, beside its library
# (src/registry/engine_manifest.h).
function(xrt_engine_manifest name file)
  set(manifest "${CMAKE_BINARY_DIR}/lib/xrt/engines/libxrt_engine_${name}.json")
  configure_file("${file}" "${manifest}" COPYONLY)
  install(FILES "${manifest}" DESTINATION "${XRT_INSTALL_LIBDIR}/xrt/engines" COMPONENT OpenXRT)
endfunction()

# xrt_install_vendor(FOLDER path...): libraries that the installed tree brings along, in a component of
# its own: files, or a folder's libraries where the path ends with a slash. Links are followed.
function(xrt_install_vendor folder)
  set(destination "${XRT_INSTALL_LIBDIR}/xrt/vendor/${folder}")
  foreach(path IN LISTS ARGN)
    if(path MATCHES "/$")
      install(DIRECTORY "${path}" DESTINATION "${destination}" COMPONENT Vendors
              FILES_MATCHING PATTERN "*.so*")
    else()
      file(REAL_PATH "${path}" real)
      cmake_path(GET path FILENAME name)
      install(FILES "${real}" DESTINATION "${destination}" RENAME "${name}" COMPONENT Vendors)
    endif()
  endforeach()
endfunction()

# xrt_add_command(TARGET [SOURCES file...] [LIBS target...]): the program bin/xrt.
function(xrt_add_command target)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  endif()
  add_executable(${target} ${arg_SOURCES})
  xrt_internal_target(${target})
  target_link_libraries(${target} PRIVATE CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json
                                          ${CMAKE_DL_LIBS} ${arg_LIBS})
  set_target_properties(
    ${target} PROPERTIES OUTPUT_NAME xrt
                         BUILD_RPATH "$ORIGIN/../lib"
                         INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${target} RUNTIME DESTINATION "${XRT_INSTALL_BINDIR}" COMPONENT OpenXRT)
endfunction()

# xrt_add_test(NAME file... [LIBS target...] [LABELS label...] [TIMEOUT seconds])
#
# One GoogleTest program, build/<preset>/tests/<NAME>, and one CTest entry. It runs in the source
# folder, so a test names its data "tests/models/...".
function(xrt_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  xrt_internal_target(${name})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  # What engine "auto" measures is kept for tests alone that name a folder.
  set(environment "XRT_TEST_PYTHON=${Python_EXECUTABLE}" "XRT_CACHE_DIR=")
  if(XRT_SANITIZE)
    # Else TBB opens a library in a way that the sanitizers refuse.
    list(APPEND environment "TBB_ENABLE_SANITIZERS=1")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                                          ENVIRONMENT "${environment}")
endfunction()

# xrt_add_python_module(NAME file...): the nanobind module openxrt.<NAME>, and the pure Python
# files beside it, assembled in build/<preset>/python/openxrt.
function(xrt_add_python_module name)
  xrt_find_nanobind()
  nanobind_add_module(${name} STABLE_ABI NB_STATIC NB_DOMAIN openxrt NOMINSIZE ${ARGN})
  xrt_internal_target(${name})
  # nanobind's own sources are not ours to keep free of warnings.
  foreach(library nanobind-static nanobind-static-abi3)
    if(TARGET ${library})
      target_compile_options(${library} PRIVATE -w)
    endif()
  endforeach()
  set_target_properties(
    ${name}
    PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/python/openxrt"
               BUILD_RPATH "$ORIGIN/../../lib"
               INSTALL_RPATH "$ORIGIN/lib")
  if(SKBUILD)
    install(TARGETS ${name} LIBRARY DESTINATION openxrt COMPONENT OpenXRT)
  endif()

  set(root "${CMAKE_SOURCE_DIR}/python/openxrt")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE "${root}" "${root}/*.py" "${root}/*.pyi"
       "${root}/py.typed")
  foreach(file IN LISTS files)
    cmake_path(GET file PARENT_PATH parent)
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/python/openxrt/${parent}")
    file(CREATE_LINK "${root}/${file}" "${CMAKE_BINARY_DIR}/python/openxrt/${file}" SYMBOLIC)
  endforeach()
endfunction()

# xrt_add_benchmark(NAME file...): a Google Benchmark program, build/<preset>/benchmarks/<NAME>.
function(xrt_add_benchmark name)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(FATAL_ERROR "Google Benchmark was not found (Debian: libbenchmark-dev). "
                        "${XRT_HOW_TO_INSTALL}")
  endif()
  add_executable(bench_${name} ${ARGN})
  xrt_internal_target(bench_${name})
  target_link_libraries(bench_${name} PRIVATE benchmark::benchmark)
  set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                                                 "${CMAKE_BINARY_DIR}/benchmarks")
endfunction()

# xrt_add_fuzzer(NAME file...): a fuzzer, build/<preset>/fuzz/<NAME>. Without XRT_BUILD_FUZZERS, that is
# with GCC, its mutations are blind.
function(xrt_add_fuzzer name)
  if(XRT_BUILD_FUZZERS)
    add_executable(${name} ${ARGN})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${ARGN} "${CMAKE_SOURCE_DIR}/tests/fuzz/driver/blind_driver.cc")
  endif()
  xrt_internal_target(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
endfunction()
