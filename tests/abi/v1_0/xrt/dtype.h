// SPDX-License-Identifier: Apache-2.0
// Element types. The numbers are those of ONNX's TensorProto.DataType (onnx.proto), so that no
// table is needed between the two.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace xrt {

enum class DType : std::uint8_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
};

inline constexpr int kDTypeCount = 27;

namespace detail {

struct DTypeRow {
  std::string_view name;
  int bits;
  char kind;  // f: float, i: signed, u: unsigned, c: complex, -: other
};

inline constexpr std::array<DTypeRow, kDTypeCount> kDTypeRows = {{
    {"undefined", 0, '-'},
    {"float32", 32, 'f'},
    {"uint8", 8, 'u'},
    {"int8", 8, 'i'},
    {"uint16", 16, 'u'},
    {"int16", 16, 'i'},
    {"int32", 32, 'i'},
    {"int64", 64, 'i'},
    {"string", 0, '-'},
    {"bool", 8, '-'},
    {"float16", 16, 'f'},
    {"float64", 64, 'f'},
    {"uint32", 32, 'u'},
    {"uint64", 64, 'u'},
    {"complex64", 64, 'c'},
    {"complex128", 128, 'c'},
    {"bfloat16", 16, 'f'},
    {"float8_e4m3fn", 8, 'f'},
    {"float8_e4m3fnuz", 8, 'f'},
    {"float8_e5m2", 8, 'f'},
    {"float8_e5m2fnuz", 8, 'f'},
    {"uint4", 4, 'u'},
    {"int4", 4, 'i'},
    {"float4_e2m1fn", 4, 'f'},
    {"float8_e8m0fnu", 8, 'f'},
    {"uint2", 2, 'u'},
    {"int2", 2, 'i'},
}};

constexpr const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return kDTypeRows[index < kDTypeRows.size() ? index : 0];
}

}  // namespace detail

// Bits of one element; 0 for kUndefined and kString (which has no fixed size in a file).
constexpr int bit_width(DType dtype) { return detail::row(dtype).bits; }
// "float32", "int4", "bfloat16", "float8_e4m3fn", "string", … as NumPy and ml_dtypes name them.
constexpr std::string_view to_string(DType dtype) { return detail::row(dtype).name; }
constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 1; i < detail::kDTypeRows.size(); ++i) {
    if (detail::kDTypeRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// Every float format, float8 and float4 included.
constexpr bool is_floating(DType dtype) { return detail::row(dtype).kind == 'f'; }
// Signed and unsigned integers of any width, not bool.
constexpr bool is_integer(DType dtype) {
  return detail::row(dtype).kind == 'i' || detail::row(dtype).kind == 'u';
}
constexpr bool is_signed_integer(DType dtype) { return detail::row(dtype).kind == 'i'; }
// Two or four elements share a byte (int4, uint4, float4, int2, uint2), low bits first.
constexpr bool is_packed(DType dtype) {
  const int bits = bit_width(dtype);
  return bits > 0 && bits < 8;
}

}  // namespace xrt
