# SPDX-License-Identifier: Apache-2.0
# NVIDIA TensorRT or TensorRT-RTX: defines xrt::tensorrt where headers and library are found.
#
#   TENSORRT_ROOT            folder with include/NvInfer.h and lib/libnvinfer.so (TensorRT) or
#                            lib/libtensorrt_rtx.so (TensorRT-RTX); the environment variable too
#   TENSORRT_INCLUDE_DIR     NvInfer.h's folder, where it lies apart from the library
#   TENSORRT_LIBRARY         the library's file, likewise
#
# XRT_ENGINE_TENSORRT: AUTO builds the engine where both are found and says so where not, ON makes
# that an error. CUDA's headers are not needed (src/engines/tensorrt/cuda).
macro(xrt_find_tensorrt)
  set(TENSORRT_ROOT "$ENV{TENSORRT_ROOT}" CACHE PATH "NVIDIA TensorRT or TensorRT-RTX")
  find_path(TENSORRT_INCLUDE_DIR NAMES NvInfer.h HINTS "${TENSORRT_ROOT}/include")
  find_library(
    TENSORRT_LIBRARY
    NAMES nvinfer tensorrt_rtx libnvinfer.so.11 libnvinfer.so.10 libtensorrt_rtx.so.1
    HINTS "${TENSORRT_ROOT}/lib" "${TENSORRT_ROOT}/lib64" "${TENSORRT_ROOT}"
          "${XRT_SITE_PACKAGES}/tensorrt_libs" "${XRT_SITE_PACKAGES}/tensorrt_rtx_libs")
  if(TENSORRT_INCLUDE_DIR AND TENSORRT_LIBRARY)
    if(NOT TARGET xrt::tensorrt)
      message(STATUS "TensorRT: ${TENSORRT_LIBRARY}, headers in ${TENSORRT_INCLUDE_DIR}")
      get_filename_component(XRT_TENSORRT_LIBRARY_DIR "${TENSORRT_LIBRARY}" DIRECTORY)
      add_library(xrt_tensorrt INTERFACE)
      add_library(xrt::tensorrt ALIAS xrt_tensorrt)
      target_include_directories(
        xrt_tensorrt SYSTEM INTERFACE "${CMAKE_SOURCE_DIR}/src/engines/tensorrt/cuda"
                                      "${TENSORRT_INCLUDE_DIR}")
      target_link_libraries(xrt_tensorrt INTERFACE "${TENSORRT_LIBRARY}")
      # One source for TensorRT 10 and 11: what 11 calls deprecated is all that 10 has.
      target_compile_options(xrt_tensorrt INTERFACE -Wno-deprecated-declarations)
    endif()
  else()
    if(NOT TENSORRT_INCLUDE_DIR)
      set(xrt_tensorrt_missing "NvInfer.h")
    else()
      set(xrt_tensorrt_missing "libnvinfer.so or libtensorrt_rtx.so")
    endif()
    set(xrt_tensorrt_message
        "TensorRT engine: ${xrt_tensorrt_missing} was not found (set TENSORRT_ROOT, see \
docs/engines.md)")
    if(XRT_ENGINE_TENSORRT STREQUAL "AUTO")
      message(STATUS "${xrt_tensorrt_message}; the engine is not built")
    else()
      message(FATAL_ERROR "${xrt_tensorrt_message}")
    endif()
  endif()
endmacro()
