// SPDX-License-Identifier: Apache-2.0
// IEEE 754 binary16 and bfloat16, in software: the library is built for any processor.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace xrt {

// A float of which the nearest 16-bit or narrower float is that of `value`: rounded to odd.
inline float narrow_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value) || std::isinf(nearest)) {
    return nearest;
  }
  if ((std::bit_cast<std::uint32_t>(nearest) & 1U) != 0) return nearest;
  const float far = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, value > static_cast<double>(nearest) ? far : -far);
}

// Rounds to nearest, ties to even; what is too large becomes infinity.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U | (magnitude >> 13 & 0x3FFU);  // NaN
  if (magnitude >= 0x477FF000U) return sign | 0x7C00U;  // rounds to 65536 or more
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 aligns the mantissa so that the addition itself rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U);
  }
  const std::uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + (magnitude >> 13 & 1U);
  return sign | static_cast<std::uint16_t>(rounded >> 13);
}

inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  // Shifted into place the exponent is 112 too small; the multiplication also makes subnormals
  // right. Infinity and NaN keep an exponent of all ones.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000U);
  std::uint32_t result = std::bit_cast<std::uint32_t>(scaled);
  if (magnitude >= 0x7C00U) result |= 0x7F800000U;
  return std::bit_cast<float>(result | sign);
}

// Rounds as float_to_half().
inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace xrt
