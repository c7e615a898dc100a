# SPDX-License-Identifier: Apache-2.0
# XLA: defines xrt::pjrt, headers only. The plugin itself is opened at run time.
macro(xrt_find_pjrt)
  find_path(XRT_PJRT_INCLUDE NAMES pjrt_c_api.h
            HINTS "${XRT_SITE_PACKAGES}/xla_plugins/xla_cpu_pjrt/include" NO_DEFAULT_PATH)
  mark_as_advanced(XRT_PJRT_INCLUDE)
  if(NOT XRT_PJRT_INCLUDE)
    message(FATAL_ERROR "pjrt_c_api.h was not found in ${XRT_SITE_PACKAGES}/xla_plugins (PyPI: "
                        "xla-cpu-pjrt). ${XRT_HOW_TO_INSTALL}")
  endif()
  if(NOT TARGET xrt::pjrt)
    add_library(xrt_pjrt INTERFACE)
    add_library(xrt::pjrt ALIAS xrt_pjrt)
    target_include_directories(xrt_pjrt SYSTEM INTERFACE "${XRT_PJRT_INCLUDE}")
    target_link_libraries(xrt_pjrt INTERFACE ${CMAKE_DL_LIBS})
  endif()
endmacro()
