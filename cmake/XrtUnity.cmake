# SPDX-License-Identifier: Apache-2.0
# xrt_unite(TARGET): where XRT_UNITY is set, up to eight sources of one folder are compiled as one, which
# reads the headers they share once. Names of a file's own (anonymous namespaces) must then differ within
# a folder. Sources with compile options of their own stay by themselves. To be called in the folder of
# the target, when it has its sources.
function(xrt_unite target)
  if(NOT XRT_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  foreach(file IN LISTS sources)
    cmake_path(ABSOLUTE_PATH file NORMALIZE)
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE name)
    string(MAKE_C_IDENTIFIER "${name}" name)
    math(EXPR part "0${count_${name}} / 8")
    math(EXPR count_${name} "0${count_${name}} + 1")
    set_source_files_properties("${file}" PROPERTIES UNITY_GROUP "${name}_${part}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
