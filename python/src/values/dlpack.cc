// SPDX-License-Identifier: Apache-2.0
#include "values/dlpack.h"

#include <algorithm>
#include <array>

namespace xrt::python::dlpack {
namespace {

struct Row {
  DType dtype;
  std::uint8_t code;
};

constexpr std::array<Row, 20> kRows = {{
    {DType::kInt8, 0},
    {DType::kInt16, 0},
    {DType::kInt32, 0},
    {DType::kInt64, 0},
    {DType::kUInt8, 1},
    {DType::kUInt16, 1},
    {DType::kUInt32, 1},
    {DType::kUInt64, 1},
    {DType::kFloat16, 2},
    {DType::kFloat32, 2},
    {DType::kFloat64, 2},
    {DType::kBFloat16, 4},
    {DType::kComplex64, 5},
    {DType::kComplex128, 5},
    {DType::kBool, 6},
    {DType::kFloat8E4M3FN, 10},
    {DType::kFloat8E4M3FNUZ, 11},
    {DType::kFloat8E5M2, 12},
    {DType::kFloat8E5M2FNUZ, 13},
    {DType::kFloat8E8M0, 14},
}};

}  // namespace

std::optional<DType> dtype_of(const DataType& type) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) {
    return r.code == type.code && bit_width(r.dtype) == type.bits;
  });
  if (row == kRows.end() || type.lanes != 1) return std::nullopt;
  return row->dtype;
}

std::optional<DataType> type_of(DType dtype) {
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.dtype == dtype; });
  if (row == kRows.end()) return std::nullopt;
  return DataType{row->code, static_cast<std::uint8_t>(bit_width(dtype)), 1};
}

}  // namespace xrt::python::dlpack
