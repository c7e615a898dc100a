// SPDX-License-Identifier: Apache-2.0
// Numbers of bytes in the environment.
#pragma once

#include <cstdint>
#include <optional>

#include "xrt/export.h"

namespace xrt {

// The variable's number. Nothing where it is not set or empty, and, with a warning that names it,
// where it is anything else.
XRT_API std::optional<std::uint64_t> byte_variable(const char* name);

}  // namespace xrt
