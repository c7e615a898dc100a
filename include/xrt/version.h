// SPDX-License-Identifier: Apache-2.0
// The version of the library, at compile time (macros) and at run time (functions). The two differ
// when a program runs with another libxrt.so than the one it was built with.
#pragma once

#include <string_view>

#include "xrt/export.h"

#define XRT_VERSION_MAJOR 0
#define XRT_VERSION_MINOR 1
#define XRT_VERSION_PATCH 0

namespace xrt {

// "major.minor.patch" of the libxrt.so that is loaded.
XRT_API std::string_view version();

}  // namespace xrt
