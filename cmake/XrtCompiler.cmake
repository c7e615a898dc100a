# SPDX-License-Identifier: Apache-2.0
# Language level, flags, compiler cache, linker and output folders, for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g0 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -DXRT_DEBUG=1")

add_compile_options(-Wall -Wextra)
if(XRT_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives of these three through inlined library code at -O2.
  add_compile_options(-Wno-error=maybe-uninitialized -Wno-error=array-bounds
                      -Wno-error=stringop-overflow)
endif()

if(XRT_SANITIZE STREQUAL "address")
  # Line tables only: full debug information makes these builds several times larger. -Og and no
  # check of pointers for null (such an access faults, and AddressSanitizer reports the fault) nor of
  # virtual tables: together two and a half times faster to compile.
  add_compile_options(-Og -fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-sanitize=null,vptr -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(XRT_SANITIZED=1)
  if(XRT_BUILD_FUZZERS)
    add_compile_options(-fsanitize=fuzzer-no-link)
  endif()
elseif(XRT_SANITIZE STREQUAL "thread")
  # GCC warns of fences, which the sanitizer does not follow.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g1 -Wno-tsan)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(XRT_SANITIZED=1)
elseif(XRT_SANITIZE)
  message(FATAL_ERROR "XRT_SANITIZE=${XRT_SANITIZE} is not known; use address or thread")
endif()

# What a library does not use is not loaded with it.
add_link_options(-Wl,--as-needed)

find_program(XRT_LLD NAMES ld.lld)
mark_as_advanced(XRT_LLD)
if(XRT_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Paths below the source folder are hashed relative to it, so that several checkouts on one
# machine share what they compiled.
find_program(XRT_CCACHE NAMES ccache)
find_program(XRT_ENV NAMES env)
mark_as_advanced(XRT_CCACHE XRT_ENV)
if(XRT_CCACHE AND XRT_ENV AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${XRT_ENV};CCACHE_BASEDIR=${CMAKE_SOURCE_DIR};CCACHE_NOHASHDIR=1;${XRT_CCACHE}")
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archive")
# Targets state their own relative RPATHs (cmake/XrtTargets.cmake): a build folder can be moved.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
