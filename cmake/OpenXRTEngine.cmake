# SPDX-License-Identifier: Apache-2.0
# xrt_add_engine, for engines of this tree and, through find_package(OpenXRT), of any other:
#
#   find_package(OpenXRT 0.1 REQUIRED)
#   xrt_add_engine(mine LIBS vendor::library)
#   install(TARGETS xrt_engine_mine LIBRARY DESTINATION lib/xrt/engines)

# xrt_library_link_options(TARGET): the RPATH is written in the form that also serves the libraries that
# the target depends on, because vendors' packages leave theirs without a search path of their own. What
# the library needs must be found at link time (sanitizers leave their symbols to the program).
function(xrt_library_link_options target)
  target_link_options(${target} PRIVATE "LINKER:--disable-new-dtags")
  if(NOT XRT_SANITIZE)
    target_link_options(${target} PRIVATE "LINKER:--no-undefined")
  endif()
endfunction()

# xrt_add_engine(NAME [SOURCES file...] [LIBS target...] [RPATH folder...] [VENDOR path...])
#
# Adds the target xrt_engine_<NAME>, which builds libxrt_engine_<NAME>.so: the name by which the engine
# is found, beside the other engines or on XRT_ENGINE_PATH.
#   SOURCES  default: every *.cc of the folder
#   LIBS     what the engine links besides OpenXRT::xrt
#   RPATH    where the vendor's libraries are looked for: absolute folders hold for the build tree alone,
#            those relative to the engine ($ORIGIN/...) for an installed one
#   VENDOR   the vendor's libraries that `cmake --install` of OpenXRT's own tree brings along
function(xrt_add_engine name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS;RPATH;VENDOR")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "xrt_add_engine(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  endif()
  set(target "xrt_engine_${name}")
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE OpenXRT::xrt ${arg_LIBS})
  xrt_library_link_options(${target})
  set(build_rpath ${arg_RPATH})
  list(FILTER build_rpath EXCLUDE REGEX "^\\$ORIGIN")
  set(install_rpath ${arg_RPATH})
  list(FILTER install_rpath INCLUDE REGEX "^\\$ORIGIN")
  set_target_properties(
    ${target}
    PROPERTIES CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               BUILD_RPATH "$ORIGIN/../..;${build_rpath}"
               INSTALL_RPATH "$ORIGIN/../..;${install_rpath}"
               XRT_VENDOR "${arg_VENDOR}")
  set_property(GLOBAL APPEND PROPERTY XRT_ENGINES ${target})
endfunction()
