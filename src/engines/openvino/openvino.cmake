# SPDX-License-Identifier: Apache-2.0
# OpenVINO: defines openvino::runtime.
macro(xrt_find_openvino)
  set(OpenVINO_DIR "${XRT_SITE_PACKAGES}/openvino/cmake" CACHE PATH "OpenVINO's CMake package")
  find_package(OpenVINO QUIET COMPONENTS Runtime)
  if(NOT OpenVINO_FOUND)
    message(FATAL_ERROR "OpenVINO was not found in ${OpenVINO_DIR} (PyPI: openvino). "
                        "${XRT_HOW_TO_INSTALL}")
  endif()
  set(XRT_OPENVINO_LIBRARY_DIR "${XRT_SITE_PACKAGES}/openvino/libs")
endmacro()
