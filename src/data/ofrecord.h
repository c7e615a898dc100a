// SPDX-License-Identifier: Apache-2.0
// One record of OneFlow's OFRecord: named lists of bytes, floats or integers, as protobuf's wire
// format has them (oneflow/core/record/record.proto):
//
//   OFRecord  { map<string, Feature> feature = 1; }
//   Feature   { oneof: BytesList = 1; FloatList = 2; DoubleList = 3; Int32List = 4; Int64List = 5 }
//   …List     { repeated … value = 1; }            packed or not
//
// A part file is a row of records, each behind its length: 8 bytes, little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "xrt/tensor.h"

namespace xrt {

struct OfRecordFeature {
  enum class Kind : std::uint8_t { kNone, kBytes, kFloat, kDouble, kInt32, kInt64 };
  Kind kind = Kind::kNone;
  std::vector<std::string_view> bytes;  // kBytes
  Tensor numbers;                       // rank 1, of the other kinds
};

// Views lie in `record`. Throws kInvalidArgument for bytes that are no such record.
std::map<std::string_view, OfRecordFeature> parse_ofrecord(std::string_view record);

}  // namespace xrt
