// SPDX-License-Identifier: Apache-2.0
#include "base/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "xrt/error.h"

namespace xrt {
namespace {

double from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// A float of `exponent` and `mantissa` bits. `has_infinity`: the highest exponent is for infinity
// and NaN as in IEEE 754; else `nan` is the one pattern (and its negative) that is NaN.
double from_small_float(unsigned bits, int exponent_bits, int mantissa_bits, int bias,
                        bool has_infinity, unsigned nan) {
  const unsigned sign = bits >> static_cast<unsigned>(exponent_bits + mantissa_bits);
  const unsigned magnitude =
      bits & ((1U << static_cast<unsigned>(exponent_bits + mantissa_bits)) - 1U);
  const unsigned mantissa = magnitude & ((1U << static_cast<unsigned>(mantissa_bits)) - 1U);
  const int exponent = static_cast<int>(magnitude >> static_cast<unsigned>(mantissa_bits));
  const int top = (1 << exponent_bits) - 1;
  if (has_infinity && exponent == top) {
    if (mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
    return sign != 0 ? -std::numeric_limits<double>::infinity()
                     : std::numeric_limits<double>::infinity();
  }
  if (!has_infinity && (bits == nan || magnitude == nan)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double value =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
  return sign != 0 ? -value : value;
}

double from_packed(const Tensor& tensor, std::int64_t i) {
  const int bits = bit_width(tensor.dtype());
  const int per_byte = 8 / bits;
  const auto shift = static_cast<unsigned>((i % per_byte) * bits);
  const unsigned mask = (1U << static_cast<unsigned>(bits)) - 1U;
  const unsigned value = (tensor.data<std::uint8_t>()[i / per_byte] >> shift) & mask;
  if (tensor.dtype() == DType::kFloat4E2M1) {
    return from_small_float(value, 2, 1, 1, false, 0xFF);  // no NaN
  }
  const unsigned sign =
      is_signed_integer(tensor.dtype()) ? 1U << static_cast<unsigned>(bits - 1) : 0U;
  return static_cast<double>(static_cast<int>(value ^ sign) - static_cast<int>(sign));
}

}  // namespace

double element_as_double(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.data<float>()[i];
    case DType::kFloat64:
      return tensor.data<double>()[i];
    case DType::kFloat16:
      return from_small_float(tensor.data<std::uint16_t>()[i], 5, 10, 15, true, 0);
    case DType::kBFloat16:
      return from_bfloat16(tensor.data<std::uint16_t>()[i]);
    case DType::kBool:
    case DType::kUInt8:
      return tensor.data<std::uint8_t>()[i];
    case DType::kInt8:
      return tensor.data<std::int8_t>()[i];
    case DType::kInt16:
      return tensor.data<std::int16_t>()[i];
    case DType::kUInt16:
      return tensor.data<std::uint16_t>()[i];
    case DType::kInt32:
      return tensor.data<std::int32_t>()[i];
    case DType::kUInt32:
      return tensor.data<std::uint32_t>()[i];
    case DType::kInt64:
      return static_cast<double>(tensor.data<std::int64_t>()[i]);
    case DType::kUInt64:
      return static_cast<double>(tensor.data<std::uint64_t>()[i]);
    case DType::kComplex64:
      return tensor.data<float>()[2 * i];
    case DType::kComplex128:
      return tensor.data<double>()[2 * i];
    case DType::kFloat8E4M3FN:
      return from_small_float(tensor.data<std::uint8_t>()[i], 4, 3, 7, false, 0x7F);
    case DType::kFloat8E4M3FNUZ:
      return from_small_float(tensor.data<std::uint8_t>()[i], 4, 3, 8, false, 0x80);
    case DType::kFloat8E5M2:
      return from_small_float(tensor.data<std::uint8_t>()[i], 5, 2, 15, true, 0);
    case DType::kFloat8E5M2FNUZ:
      return from_small_float(tensor.data<std::uint8_t>()[i], 5, 2, 16, false, 0x80);
    case DType::kFloat8E8M0: {
      const int exponent = tensor.data<std::uint8_t>()[i];
      if (exponent == 255) return std::numeric_limits<double>::quiet_NaN();
      return std::ldexp(1.0, exponent - 127);
    }
    case DType::kUInt4:
    case DType::kInt4:
    case DType::kUInt2:
    case DType::kInt2:
    case DType::kFloat4E2M1:
      return from_packed(tensor, i);
    case DType::kString:
    case DType::kUndefined:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument, "strings are not numbers");
}

void copy_packed_elements(DType dtype, const void* source, std::int64_t source_index, void* target,
                          std::int64_t target_index, std::int64_t count) {
  const int bits = bit_width(dtype);
  const std::int64_t per_byte = 8 / bits;
  const auto* from = static_cast<const std::uint8_t*>(source);
  auto* to = static_cast<std::uint8_t*>(target);
  std::int64_t done = 0;
  if (source_index % per_byte == 0 && target_index % per_byte == 0) {
    const std::int64_t bytes = count / per_byte;
    std::copy_n(from + source_index / per_byte, bytes, to + target_index / per_byte);
    done = bytes * per_byte;
  }
  const auto mask = static_cast<unsigned>((1 << bits) - 1);
  for (; done < count; ++done) {
    const std::int64_t read = source_index + done;
    const std::int64_t written = target_index + done;
    const unsigned value = from[read / per_byte] >> (read % per_byte * bits) & mask;
    const auto shift = static_cast<unsigned>(written % per_byte * bits);
    std::uint8_t& byte = to[written / per_byte];
    byte = static_cast<std::uint8_t>((byte & ~(mask << shift)) | value << shift);
  }
}

}  // namespace xrt
