// SPDX-License-Identifier: Apache-2.0
// Log lines to standard error. The level comes from XRT_LOG (debug, info, warning, error, off);
// the default is warning.
#pragma once

#include <string_view>

#include "xrt/export.h"

namespace xrt {

XRT_API void log_debug(std::string_view message);
XRT_API void log_info(std::string_view message);
XRT_API void log_warning(std::string_view message);
// From now on every line is printed, whatever XRT_LOG says.
XRT_API void log_everything();
// Whether log_debug prints: to spare the work of making the message.
XRT_API bool log_debug_enabled();

}  // namespace xrt
