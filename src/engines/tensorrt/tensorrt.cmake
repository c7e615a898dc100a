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
  # The headers decide which product's library is looked for: they fit no other.
  set(xrt_tensorrt_names nvinfer libnvinfer.so.11 libnvinfer.so.10)
  if(TENSORRT_INCLUDE_DIR AND EXISTS "${TENSORRT_INCLUDE_DIR}/NvInferVersion.h")
    file(STRINGS "${TENSORRT_INCLUDE_DIR}/NvInferVersion.h" xrt_tensorrt_rtx REGEX "TRT_MAJOR_RTX")
    if(xrt_tensorrt_rtx)
      set(xrt_tensorrt_names tensorrt_rtx libtensorrt_rtx.so.1)
    endif()
  endif()
  find_library(
    TENSORRT_LIBRARY
    NAMES ${xrt_tensorrt_names}
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
      list(GET xrt_tensorrt_names 0 xrt_tensorrt_name)
      set(xrt_tensorrt_missing "lib${xrt_tensorrt_name}.so, which goes with these headers,")
    endif()
    set(xrt_tensorrt_message
        "TensorRT engine: ${xrt_tensorrt_missing} was not found (set TENSORRT_ROOT, see \
docs/reference/engines.md)")
    if(XRT_ENGINE_TENSORRT STREQUAL "AUTO")
      message(STATUS "${xrt_tensorrt_message}; the engine is not built")
    else()
      message(FATAL_ERROR "${xrt_tensorrt_message}")
    endif()
  endif()
endmacro()
