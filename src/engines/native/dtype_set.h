// SPDX-License-Identifier: Apache-2.0
// Sets of element types, for support answers.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "xrt/dtype.h"

namespace xrt::native {

class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> types) {
    for (DType t : types) bits_ |= std::uint32_t{1} << static_cast<unsigned>(t);
  }
  constexpr bool contains(DType t) const { return (bits_ >> static_cast<unsigned>(t) & 1U) != 0; }
  constexpr DTypeSet operator|(DTypeSet other) const {
    DTypeSet r;
    r.bits_ = bits_ | other.bits_;
    return r;
  }

 private:
  std::uint32_t bits_ = 0;
};

// float16, bfloat16, float32, float64
inline constexpr DTypeSet kFloatTypes{DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                                      DType::kFloat64};
inline constexpr DTypeSet kSignedTypes{DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
inline constexpr DTypeSet kUnsignedTypes{DType::kUInt8, DType::kUInt16, DType::kUInt32,
                                         DType::kUInt64};
inline constexpr DTypeSet kIntegerTypes = kSignedTypes | kUnsignedTypes;
// Integers of 8 to 64 bits and the four floats.
inline constexpr DTypeSet kNumericTypes = kIntegerTypes | kFloatTypes;
inline constexpr DTypeSet kFloat8Types{DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ,
                                       DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
                                       DType::kFloat8E8M0};
inline constexpr DTypeSet kPackedTypes{DType::kInt4, DType::kUInt4, DType::kInt2, DType::kUInt2,
                                       DType::kFloat4E2M1};
inline constexpr DTypeSet kComplexTypes{DType::kComplex64, DType::kComplex128};
inline constexpr DTypeSet kBoolType{DType::kBool};
inline constexpr DTypeSet kStringType{DType::kString};
// Whole bytes per element, strings left out.
inline constexpr DTypeSet kByteTypes = kNumericTypes | kFloat8Types | kComplexTypes | kBoolType;
inline constexpr DTypeSet kAllTypes = kByteTypes | kPackedTypes | kStringType;

}  // namespace xrt::native
