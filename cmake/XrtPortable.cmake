# SPDX-License-Identifier: Apache-2.0
# -DXRT_PORTABLE=PREFIX: libraries that load on other machines than this one (manylinux_2_28). They are linked
# against what tools/portable/build.sh made in PREFIX: names of an older C library and C++ library, and
# static libraries in place of Debian's.
set(XRT_PORTABLE "" CACHE PATH "Folder that tools/portable/build.sh made; empty: link for this machine")
if(NOT XRT_PORTABLE)
  # The target of a package as it is.
  function(xrt_make_static)
  endfunction()
  return()
endif()
if(NOT EXISTS "${XRT_PORTABLE}/complete")
  message(FATAL_ERROR "XRT_PORTABLE=${XRT_PORTABLE} is not complete: run tools/portable/build.sh "
                      "${XRT_PORTABLE}")
endif()

# The compiler looks there first for libraries and start files. What comes from static libraries stays inside.
add_link_options("-B${XRT_PORTABLE}/" "LINKER:--exclude-libs,ALL")
# The compiler's own libgcc_s.so.1 asks for this machine's C library; programs are linked with the older names.
add_link_options("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:LINKER:--allow-shlib-undefined>")

# What find_library and the modules of CMake would find.
foreach(entry XRT_XXHASH_LIBRARY:xxhash XRT_RE2_LIBRARY:re2 XRT_UTF8PROC_LIBRARY:utf8proc
              PNG_LIBRARY_RELEASE:png16 JPEG_LIBRARY_RELEASE:jpeg
              ZLIB_LIBRARY_RELEASE:z Protobuf_LIBRARY_RELEASE:protobuf Protobuf_LIBRARY:protobuf)
  string(REPLACE ":" ";" entry "${entry}")
  list(GET entry 0 variable)
  list(GET entry 1 name)
  set(${variable} "${XRT_PORTABLE}/lib${name}.a" CACHE FILEPATH "" FORCE)
endforeach()

set(XRT_ZIP_LIBRARY "${XRT_PORTABLE}/libzip.a;${XRT_PORTABLE}/libz.a" CACHE STRING "" FORCE)

# xrt_make_static(TARGET NAME): the imported target is libNAME.a. Its compile flags stay as they are.
function(xrt_make_static target name)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration}
                                               "${XRT_PORTABLE}/lib${name}.a")
  endforeach()
endfunction()
