// SPDX-License-Identifier: Apache-2.0
// What the stand-ins of NVIDIA's libraries share: elements of all types, and streams.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace standin {

enum class Type { kFloat, kDouble, kHalf, kBfloat, kInt32, kInt8 };

inline float half_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00U;
  if (size >= 65520) return sign | 0x7C00U;
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);
  const int step = std::max(exponent - 11, -24);  // of the last digit
  const auto digits = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, -step)));
  // `digits` has 11 bits, or fewer below the smallest normal number.
  if (step == -24) return sign | static_cast<std::uint16_t>(digits);
  return sign | static_cast<std::uint16_t>(((step + 24U) << 10) + digits);
}

inline double load(const void* memory, Type type, std::int64_t at) {
  switch (type) {
    case Type::kFloat:
      return static_cast<const float*>(memory)[at];
    case Type::kDouble:
      return static_cast<const double*>(memory)[at];
    case Type::kHalf:
      return half_to_float(static_cast<const std::uint16_t*>(memory)[at]);
    case Type::kBfloat:
      return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(memory)[at]}
                                  << 16);
    case Type::kInt32:
      return static_cast<const std::int32_t*>(memory)[at];
    case Type::kInt8:
      return static_cast<const std::int8_t*>(memory)[at];
  }
  return 0;
}

inline void store(void* memory, Type type, std::int64_t at, double value) {
  switch (type) {
    case Type::kFloat:
      static_cast<float*>(memory)[at] = static_cast<float>(value);
      break;
    case Type::kDouble:
      static_cast<double*>(memory)[at] = value;
      break;
    case Type::kHalf:
      static_cast<std::uint16_t*>(memory)[at] = float_to_half(static_cast<float>(value));
      break;
    case Type::kBfloat: {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      static_cast<std::uint16_t*>(memory)[at] =
          static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
      break;
    }
    case Type::kInt32:
      static_cast<std::int32_t*>(memory)[at] = static_cast<std::int32_t>(value);
      break;
    case Type::kInt8:
      static_cast<std::int8_t*>(memory)[at] =
          static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0));
      break;
  }
}

// Work in the order of a stream of the stand-in for libcuda.so.1.
inline void queue(void* stream, const std::string& name, const std::function<void()>& run) {
  static const auto entry =
      reinterpret_cast<void (*)(void*, const std::string&, const std::function<void()>&)>(
          dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "standin_queue"));
  entry(stream, name, run);
}

}  // namespace standin
