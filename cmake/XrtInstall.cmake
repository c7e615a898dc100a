# SPDX-License-Identifier: Apache-2.0
# Public headers and the CMake package, so that an engine can be built outside this repository:
#   find_package(OpenXRT 0.1 REQUIRED)
#   xrt_add_engine(mine)
include(CMakePackageConfigHelpers)

set(package_dir "${XRT_INSTALL_LIBDIR}/cmake/OpenXRT")
install(DIRECTORY include/xrt DESTINATION "${XRT_INSTALL_INCLUDEDIR}" COMPONENT OpenXRT
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
configure_package_config_file(cmake/OpenXRTConfig.cmake.in
                              "${CMAKE_BINARY_DIR}/OpenXRTConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/OpenXRTConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/OpenXRTConfig.cmake"
              "${CMAKE_BINARY_DIR}/OpenXRTConfigVersion.cmake" "cmake/OpenXRTEngine.cmake"
        DESTINATION "${package_dir}" COMPONENT OpenXRT)
install(EXPORT OpenXRTTargets NAMESPACE OpenXRT:: DESTINATION "${package_dir}" COMPONENT OpenXRT)
