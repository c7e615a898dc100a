// SPDX-License-Identifier: Apache-2.0
// Element types. The numbers are those of ONNX's TensorProto.DataType (onnx.proto), so that no
// table is needed between the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "xrt/export.h"

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

// Bits of one element; 0 for kUndefined and kString (which has no fixed size in a file).
XRT_API int bit_width(DType dtype);
// "float32", "int4", "bfloat16", "float8_e4m3fn", "string", … as NumPy and ml_dtypes name them.
XRT_API std::string_view to_string(DType dtype);
XRT_API std::optional<DType> parse_dtype(std::string_view name);

XRT_API bool is_floating(DType dtype);  // every float format, float8 and float4 included
XRT_API bool is_integer(DType dtype);   // signed and unsigned integers of any width, not bool
XRT_API bool is_signed_integer(DType dtype);
// Two or four elements share a byte (int4, uint4, float4, int2, uint2), low bits first.
inline bool is_packed(DType dtype) {
  const int bits = bit_width(dtype);
  return bits > 0 && bits < 8;
}

}  // namespace xrt
