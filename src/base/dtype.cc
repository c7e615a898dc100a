// SPDX-License-Identifier: Apache-2.0
#include "xrt/dtype.h"

#include <array>

namespace xrt {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
  char kind;  // f: float, i: signed, u: unsigned, c: complex, -: other
};

constexpr std::array<DTypeRow, kDTypeCount> kRows = {{
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

const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return kRows[index < kRows.size() ? index : 0];
}

}  // namespace

int bit_width(DType dtype) { return row(dtype).bits; }

std::string_view to_string(DType dtype) { return row(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_floating(DType dtype) { return row(dtype).kind == 'f'; }

bool is_integer(DType dtype) { return row(dtype).kind == 'i' || row(dtype).kind == 'u'; }

bool is_signed_integer(DType dtype) { return row(dtype).kind == 'i'; }

}  // namespace xrt
