// SPDX-License-Identifier: Apache-2.0
#include "data/half.h"

#include <cmath>

namespace xrt {

std::uint16_t to_half(float value) {
  constexpr unsigned kInfinity = 0x7C00;
  constexpr unsigned kNan = 0x7E00;
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  const double magnitude = std::fabs(static_cast<double>(value));
  unsigned bits = 0;
  if (std::isnan(value)) {
    bits = kNan;
  } else if (magnitude >= 65520.0) {  // half a step above the largest number
    bits = kInfinity;
  } else if (magnitude < 0x1p-14) {  // subnormal: a multiple of 2^-24
    bits = static_cast<unsigned>(std::nearbyint(magnitude * 0x1p24));
  } else {
    int exponent = 0;
    const double fraction = std::frexp(magnitude, &exponent) * 2.0 - 1.0;
    // Rounding up may carry into the exponent, which is as it should be.
    bits = (static_cast<unsigned>(exponent + 14) << 10U) +
           static_cast<unsigned>(std::nearbyint(fraction * 1024.0));
  }
  return static_cast<std::uint16_t>(sign | bits);
}

}  // namespace xrt
