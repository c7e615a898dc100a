// SPDX-License-Identifier: Apache-2.0
#include "xrt/precision.h"

#include <gtest/gtest.h>

namespace xrt {
namespace {

TEST(Precision, NamesAreThoseThatUsersWrite) {
  EXPECT_EQ(to_string(Precision::kF32), "f32");
  EXPECT_EQ(to_string(Precision::kTF32), "tf32");
  EXPECT_EQ(to_string(Precision::kBF16), "bf16");
  EXPECT_EQ(to_string(Precision::kF16), "f16");
  for (const Precision precision :
       {Precision::kF32, Precision::kTF32, Precision::kBF16, Precision::kF16}) {
    EXPECT_EQ(parse_precision(to_string(precision)), precision);
  }
  for (const char* const word : {"", "auto", "F16", "float16", "f16 "}) {
    EXPECT_EQ(parse_precision(word), std::nullopt) << word;
  }
}

}  // namespace
}  // namespace xrt
