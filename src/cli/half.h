// SPDX-License-Identifier: Apache-2.0
// IEEE 754 binary16, in software: the command is built for any x86-64.
#pragma once

#include <cstdint>

namespace xrt::cli {

// Rounds to nearest, ties to even; what is too large becomes infinity.
std::uint16_t to_half(float value);

}  // namespace xrt::cli
