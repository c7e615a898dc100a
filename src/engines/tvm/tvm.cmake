# SPDX-License-Identifier: Apache-2.0
# TVM: defines xrt::tvm_runtime where the wheels apache-tvm and apache-tvm-ffi are installed, and sets
# XRT_TVM_FOUND. The runtime only: the compiler runs in a process of its own.
macro(xrt_find_tvm)
  set(XRT_TVM_LIBRARY_DIR "${XRT_SITE_PACKAGES}/tvm/lib")
  set(XRT_TVM_FFI_LIBRARY_DIR "${XRT_SITE_PACKAGES}/tvm_ffi/lib")
  set(XRT_TVM_FOUND FALSE)
  if(EXISTS "${XRT_TVM_LIBRARY_DIR}/libtvm_runtime.so"
     AND EXISTS "${XRT_TVM_FFI_LIBRARY_DIR}/libtvm_ffi.so")
    set(XRT_TVM_FOUND TRUE)
    if(NOT TARGET xrt::tvm_runtime)
      add_library(xrt_tvm_runtime INTERFACE)
      add_library(xrt::tvm_runtime ALIAS xrt_tvm_runtime)
      target_include_directories(
        xrt_tvm_runtime SYSTEM INTERFACE "${XRT_SITE_PACKAGES}/tvm/include"
                                         "${XRT_SITE_PACKAGES}/tvm_ffi/include")
      # The parts register themselves: none is named by a symbol, all are needed.
      target_link_libraries(
        xrt_tvm_runtime
        INTERFACE "-Wl,--push-state,--no-as-needed"
                  "${XRT_TVM_FFI_LIBRARY_DIR}/libtvm_ffi.so"
                  "${XRT_TVM_LIBRARY_DIR}/libtvm_runtime.so"
                  "${XRT_TVM_LIBRARY_DIR}/libtvm_runtime_extra.so" "-Wl,--pop-state")
    endif()
  endif()
endmacro()
