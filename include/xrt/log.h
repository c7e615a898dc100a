// SPDX-License-Identifier: Apache-2.0
// The library's log, lines on standard error.
#pragma once

#include <string_view>

#include "xrt/export.h"

namespace xrt {

// Lines of that level and above are printed from now on: "debug", "info", "warning", "error" or
// "off". It begins as $XRT_LOG says, else as "warning". kInvalidArgument for another word.
XRT_API void set_log_level(std::string_view level);

}  // namespace xrt
