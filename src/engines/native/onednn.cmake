# SPDX-License-Identifier: Apache-2.0
# oneDNN: defines DNNL::dnnl.
macro(xrt_find_onednn)
  set(XRT_ONEDNN_DIR "${XRT_PYTHON_PREFIX}/lib/cmake/dnnl" CACHE PATH "oneDNN's CMake package")
  if(NOT EXISTS "${XRT_ONEDNN_DIR}/dnnl-config.cmake")
    message(FATAL_ERROR "oneDNN was not found in ${XRT_ONEDNN_DIR} (PyPI: "
                        "onednn-devel-cpu-tbb). ${XRT_HOW_TO_INSTALL}")
  endif()
  if(NOT TARGET DNNL::dnnl)
    add_library(DNNL::dnnl SHARED IMPORTED)
    set_target_properties(
      DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${XRT_PYTHON_PREFIX}/lib/libdnnl.so.3"
                            INTERFACE_INCLUDE_DIRECTORIES "${XRT_PYTHON_PREFIX}/include")
  endif()
  set(XRT_ONEDNN_LIBRARY_DIR "${XRT_PYTHON_PREFIX}/lib")
endmacro()
