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

# The same for other build systems and other languages: pkg-config --cflags --libs openxrt. An
# installed tree may be moved: paths are relative to the file. The build tree has one of its own,
# build/<preset>/lib/pkgconfig.
set(XRT_PC_PREFIX "${CMAKE_SOURCE_DIR}")
set(XRT_PC_LIBDIR "${CMAKE_BINARY_DIR}/lib")
set(XRT_PC_INCLUDEDIR "${CMAKE_SOURCE_DIR}/include")
configure_file(cmake/openxrt.pc.in "${CMAKE_BINARY_DIR}/lib/pkgconfig/openxrt.pc" @ONLY)
file(RELATIVE_PATH XRT_PC_PREFIX "/p/${XRT_INSTALL_LIBDIR}/pkgconfig" "/p")
set(XRT_PC_PREFIX "\${pcfiledir}/${XRT_PC_PREFIX}")
set(XRT_PC_LIBDIR "\${prefix}/${XRT_INSTALL_LIBDIR}")
set(XRT_PC_INCLUDEDIR "\${prefix}/${XRT_INSTALL_INCLUDEDIR}")
configure_file(cmake/openxrt.pc.in "${CMAKE_BINARY_DIR}/openxrt.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/openxrt.pc" DESTINATION "${XRT_INSTALL_LIBDIR}/pkgconfig"
        COMPONENT OpenXRT)
