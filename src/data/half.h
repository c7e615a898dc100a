// SPDX-License-Identifier: Apache-2.0
// IEEE 754 binary16, in software: the program is built for any x86-64.
#pragma once

#include <cstdint>

namespace xrt {

// Rounds to nearest, ties to even; what is too large becomes infinity.
std::uint16_t to_half(float value);

}  // namespace xrt
