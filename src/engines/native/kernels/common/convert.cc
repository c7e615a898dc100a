// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/convert.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

namespace {

// An 8-bit or narrower float: sign, `exponent` bits, `mantissa` bits.
struct SmallFormat {
  int exponent, mantissa, bias;
  int max_code;  // of the largest finite magnitude
  int infinity;  // code, or -1
  int nan;       // code
  bool negative_zero;
};

SmallFormat small_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return {4, 3, 7, 0x7E, -1, 0x7F, true};
    case DType::kFloat8E4M3FNUZ:
      return {4, 3, 8, 0x7F, -1, 0x80, false};
    case DType::kFloat8E5M2:
      return {5, 2, 15, 0x7B, 0x7C, 0x7E, true};
    case DType::kFloat8E5M2FNUZ:
      return {5, 2, 16, 0x7F, -1, 0x80, false};
    case DType::kFloat4E2M1:
      return {2, 1, 1, 0x7, -1, 0x7, true};
    default:
      fail_dtype(dtype);
  }
}

float decode(DType dtype, std::uint8_t bits) {
  if (dtype == DType::kFloat8E8M0) {
    return bits == 0xFF ? std::numeric_limits<float>::quiet_NaN()
                        : std::ldexp(1.0F, static_cast<int>(bits) - 127);
  }
  const SmallFormat f = small_format(dtype);
  const int width = f.exponent + f.mantissa;
  const int magnitude = bits & ((1 << width) - 1);
  const bool negative = (bits >> width & 1) != 0;
  if (dtype != DType::kFloat4E2M1) {
    if (!f.negative_zero ? bits == 0x80 : magnitude > f.max_code && magnitude != f.infinity) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    if (magnitude == f.infinity) {
      return negative ? -std::numeric_limits<float>::infinity()
                      : std::numeric_limits<float>::infinity();
    }
  }
  const int exponent = magnitude >> f.mantissa;
  const int mantissa = magnitude & ((1 << f.mantissa) - 1);
  const float value = exponent == 0
                          ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa)
                          : std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa)),
                                       exponent - f.bias - f.mantissa);
  return negative ? -value : value;
}

std::uint8_t encode_e8m0(float value, bool saturate, Rounding rounding) {
  if (std::isnan(value)) return 0xFF;
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return saturate ? 0xFE : 0xFF;
  if (magnitude == 0) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  int exponent = static_cast<int>(bits >> 23);
  const std::uint32_t mantissa = bits & 0x7FFFFF;
  bool up = false;
  if (rounding == Rounding::kUp) {
    up = mantissa > 0;
  } else if (rounding == Rounding::kNearest) {
    // Ties go away from zero; a subnormal's halfway point is at 2^-127.
    up = mantissa >= 0x400000;
    if (exponent == 0) up = mantissa > 0x400000;
  }
  if (up) ++exponent;
  if (exponent >= 0xFF) return saturate ? 0xFE : 0xFF;
  return static_cast<std::uint8_t>(exponent);
}

const std::array<float, 256>& small_table(DType dtype) {
  const auto make = [](DType t) {
    std::array<float, 256> table{};
    for (int i = 0; i < 256; ++i) table[i] = decode(t, static_cast<std::uint8_t>(i));
    return table;
  };
  static const std::array<std::array<float, 256>, 6> tables{
      make(DType::kFloat8E4M3FN),   make(DType::kFloat8E4M3FNUZ), make(DType::kFloat8E5M2),
      make(DType::kFloat8E5M2FNUZ), make(DType::kFloat4E2M1),     make(DType::kFloat8E8M0)};
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return tables[0];
    case DType::kFloat8E4M3FNUZ:
      return tables[1];
    case DType::kFloat8E5M2:
      return tables[2];
    case DType::kFloat8E5M2FNUZ:
      return tables[3];
    case DType::kFloat4E2M1:
      return tables[4];
    case DType::kFloat8E8M0:
      return tables[5];
    default:
      fail_dtype(dtype);
  }
}

std::uint8_t packed_element(const void* source, std::int64_t index, int bits) {
  const int per_byte = 8 / bits;
  const std::uint8_t byte = static_cast<const std::uint8_t*>(source)[index / per_byte];
  return byte >> (index % per_byte * bits) & ((1 << bits) - 1);
}

void set_packed_element(void* target, std::int64_t index, int bits, unsigned value) {
  const int per_byte = 8 / bits;
  std::uint8_t& byte = static_cast<std::uint8_t*>(target)[index / per_byte];
  const int shift = static_cast<int>(index % per_byte) * bits;
  const unsigned mask = ((1U << bits) - 1) << shift;
  byte = static_cast<std::uint8_t>((byte & ~mask) | (value << shift & mask));
}

template <typename T, typename Out>
void load_plain(const void* source, std::int64_t offset, std::int64_t n, Out* out) {
  const T* in = static_cast<const T*>(source) + offset;
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(in[i]);
}

template <typename Out>
void load_any(DType dtype, const void* source, std::int64_t offset, std::int64_t n, Out* out) {
  switch (dtype) {
    case DType::kBool:
      return load_plain<std::uint8_t>(source, offset, n, out);
    case DType::kFloat32:
      return load_plain<float>(source, offset, n, out);
    case DType::kFloat64:
      return load_plain<double>(source, offset, n, out);
    case DType::kFloat16: {
      const auto* in = static_cast<const std::uint16_t*>(source) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(half_to_float(in[i]));
      return;
    }
    case DType::kBFloat16: {
      const auto* in = static_cast<const std::uint16_t*>(source) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(bfloat16_to_float(in[i]));
      return;
    }
    case DType::kInt4:
    case DType::kInt2: {
      const int bits = bit_width(dtype);
      for (std::int64_t i = 0; i < n; ++i) {
        const int value = packed_element(source, offset + i, bits);
        out[i] = static_cast<Out>(value >= 1 << (bits - 1) ? value - (1 << bits) : value);
      }
      return;
    }
    case DType::kUInt4:
    case DType::kUInt2: {
      const int bits = bit_width(dtype);
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<Out>(packed_element(source, offset + i, bits));
      }
      return;
    }
    case DType::kFloat4E2M1: {
      const auto& table = small_table(dtype);
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<Out>(table[packed_element(source, offset + i, 4)]);
      }
      return;
    }
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0: {
      const auto& table = small_table(dtype);
      const auto* in = static_cast<const std::uint8_t*>(source) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(table[in[i]]);
      return;
    }
    default:
      dispatch_integer(dtype, [&]<typename T>() { load_plain<T>(source, offset, n, out); });
  }
}

// Numbers that do not fit become what x86 makes of them, as in ONNX Runtime, PyTorch and NumPy
// there: the least number of 32 bits, of which narrower types take the lowest bits, or that of 64
// bits.
constexpr double kTwo31 = 2147483648.0;
constexpr double kTwo63 = 9223372036854775808.0;

std::int32_t to_32_bits(double value) {
  return value > -kTwo31 - 1 && value < kTwo31 ? static_cast<std::int32_t>(value) : INT32_MIN;
}

std::int64_t to_64_bits(double value) {
  return value >= -kTwo63 && value < kTwo63 ? static_cast<std::int64_t>(value) : INT64_MIN;
}

template <typename T>
T truncated(double value) {
  if constexpr (std::is_same_v<T, std::uint32_t>) {
    if (value >= kTwo31) return static_cast<T>(to_32_bits(value - kTwo31)) ^ 0x80000000U;
    return static_cast<T>(to_32_bits(value));
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (value >= kTwo63) return static_cast<T>(to_64_bits(value - kTwo63)) ^ (T{1} << 63);
    return static_cast<T>(to_64_bits(value));
  } else if constexpr (sizeof(T) == 8) {
    return to_64_bits(value);
  } else {
    return static_cast<T>(to_32_bits(value));
  }
}

template <typename In>
void store_any(DType dtype, const In* source, std::int64_t n, void* target, std::int64_t offset,
               bool saturate, Rounding rounding) {
  const auto narrow = [](In value) {
    if constexpr (std::is_same_v<In, double>) {
      return narrow_to_odd(value);
    } else {
      return static_cast<float>(value);
    }
  };
  switch (dtype) {
    case DType::kBool: {
      auto* out = static_cast<std::uint8_t*>(target) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = source[i] != In{0};
      return;
    }
    case DType::kFloat32: {
      auto* out = static_cast<float*>(target) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(source[i]);
      return;
    }
    case DType::kFloat64: {
      auto* out = static_cast<double*>(target) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(source[i]);
      return;
    }
    case DType::kFloat16: {
      auto* out = static_cast<std::uint16_t*>(target) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = float_to_half(narrow(source[i]));
      return;
    }
    case DType::kBFloat16: {
      auto* out = static_cast<std::uint16_t*>(target) + offset;
      for (std::int64_t i = 0; i < n; ++i) out[i] = float_to_bfloat16(narrow(source[i]));
      return;
    }
    case DType::kInt4:
    case DType::kUInt4:
    case DType::kInt2:
    case DType::kUInt2: {
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t value = 0;
        if constexpr (std::is_floating_point_v<In>) {
          value = truncated<std::int32_t>(static_cast<double>(source[i]));
        } else {
          value = source[i];
        }
        set_packed_element(target, offset + i, bit_width(dtype), static_cast<unsigned>(value));
      }
      return;
    }
    case DType::kFloat4E2M1: {
      for (std::int64_t i = 0; i < n; ++i) {
        set_packed_element(target, offset + i, 4,
                           float_to_small(dtype, narrow(source[i]), saturate));
      }
      return;
    }
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0: {
      auto* out = static_cast<std::uint8_t*>(target) + offset;
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = float_to_small(dtype, narrow(source[i]), saturate, rounding);
      }
      return;
    }
    default:
      dispatch_integer(dtype, [&]<typename T>() {
        T* out = static_cast<T*>(target) + offset;
        for (std::int64_t i = 0; i < n; ++i) {
          if constexpr (std::is_floating_point_v<In>) {
            out[i] = truncated<T>(static_cast<double>(source[i]));
          } else {
            out[i] = static_cast<T>(source[i]);
          }
        }
      });
  }
}

}  // namespace

std::uint8_t float_to_small(DType dtype, float value, bool saturate, Rounding rounding) {
  if (dtype == DType::kFloat8E8M0) return encode_e8m0(value, saturate, rounding);
  const SmallFormat f = small_format(dtype);
  const int width = f.exponent + f.mantissa;
  const int sign = std::signbit(value) ? 1 << width : 0;
  if (dtype == DType::kFloat4E2M1) {
    // Neither infinity nor NaN: the one becomes the largest number, the other -0.
    if (std::isnan(value)) return 0x8;
    saturate = true;
  } else if (std::isnan(value)) {
    return static_cast<std::uint8_t>(f.negative_zero ? f.nan | sign : f.nan);
  }
  const double magnitude = std::fabs(static_cast<double>(value));
  int code = f.max_code + 1;
  if (!std::isinf(magnitude)) {
    int exponent = magnitude == 0 ? 1 - f.bias : std::ilogb(magnitude);
    if (exponent < 1 - f.bias) exponent = 1 - f.bias;
    // In units of the last place; std::nearbyint rounds to even.
    const auto units =
        static_cast<std::int64_t>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));
    const std::int64_t wide =
        units + (static_cast<std::int64_t>(exponent + f.bias - 1) << f.mantissa);
    code = wide > f.max_code ? f.max_code + 1 : static_cast<int>(wide);
  }
  if (code > f.max_code) {
    if (saturate) {
      code = f.max_code;
    } else if (f.infinity >= 0) {
      code = f.infinity;
    } else {
      return static_cast<std::uint8_t>(f.negative_zero ? f.nan | sign : f.nan);
    }
  }
  if (code == 0 && !f.negative_zero) return 0;
  return static_cast<std::uint8_t>(code | sign);
}

void load_float(DType dtype, const void* source, std::int64_t offset, std::int64_t n, float* out) {
  if (dtype == DType::kFloat16) {
    vector_ops().half_to_float(static_cast<const std::uint16_t*>(source) + offset, out, n);
  } else if (dtype == DType::kBFloat16) {
    vector_ops().bfloat16_to_float(static_cast<const std::uint16_t*>(source) + offset, out, n);
  } else {
    load_any(dtype, source, offset, n, out);
  }
}
void load_double(DType dtype, const void* source, std::int64_t offset, std::int64_t n,
                 double* out) {
  load_any(dtype, source, offset, n, out);
}
void load_int64(DType dtype, const void* source, std::int64_t offset, std::int64_t n,
                std::int64_t* out) {
  if (is_floating(dtype)) fail_dtype(dtype);
  load_any(dtype, source, offset, n, out);
}
void store_float(DType dtype, const float* source, std::int64_t n, void* target,
                 std::int64_t offset, bool saturate) {
  if (dtype == DType::kFloat16) {
    vector_ops().float_to_half(source, static_cast<std::uint16_t*>(target) + offset, n);
  } else if (dtype == DType::kBFloat16) {
    vector_ops().float_to_bfloat16(source, static_cast<std::uint16_t*>(target) + offset, n);
  } else {
    store_any(dtype, source, n, target, offset, saturate, Rounding::kUp);
  }
}
void store_double(DType dtype, const double* source, std::int64_t n, void* target,
                  std::int64_t offset, bool saturate, Rounding rounding) {
  store_any(dtype, source, n, target, offset, saturate, rounding);
}
void store_int64(DType dtype, const std::int64_t* source, std::int64_t n, void* target,
                 std::int64_t offset) {
  store_any(dtype, source, n, target, offset, true, Rounding::kUp);
}

Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = Tensor::allocate(dtype, x.dims());
  constexpr std::int64_t kBlock = 1024;
  const bool integers = !is_floating(x.dtype()) && !is_floating(dtype);
  for (std::int64_t i = 0; i < x.count(); i += kBlock) {
    const std::int64_t n = std::min(kBlock, x.count() - i);
    if (dtype == DType::kFloat32) {
      load_float(x.dtype(), x.raw(), i, n, y.data<float>() + i);
    } else if (x.dtype() == DType::kFloat32) {
      store_float(dtype, x.data<float>() + i, n, y.raw(), i);
    } else if (integers) {
      std::int64_t block[kBlock];
      load_int64(x.dtype(), x.raw(), i, n, block);
      store_int64(dtype, block, n, y.raw(), i);
    } else {
      double block[kBlock];
      load_double(x.dtype(), x.raw(), i, n, block);
      store_double(dtype, block, n, y.raw(), i);
    }
  }
  return y;
}

void store_result(const Tensor& wide, Tensor& y) {
  if (wide.raw() == y.raw()) return;
  const Tensor narrow = converted(wide, y.dtype());
  std::memcpy(y.raw(), narrow.raw(), y.bytes());
}

}  // namespace xrt::native
