// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace xrt {
namespace {

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0F), 0x3C00);
  EXPECT_EQ(float_to_half(-2.0F), 0xC000);
  EXPECT_EQ(float_to_half(0.1F), 0x2E66);
  EXPECT_EQ(float_to_half(65504.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(0x1p-24F), 0x0001);
  EXPECT_EQ(float_to_half(0x1p-25F), 0x0000);  // a tie goes to the even neighbour
  EXPECT_EQ(float_to_half(0x1.8p-24F), 0x0002);
  EXPECT_EQ(float_to_half(0x1.ffep-15F), 0x03FF + 1);
  EXPECT_EQ(float_to_half(1.0F + 0x1p-11F), 0x3C00);
  EXPECT_EQ(float_to_half(1.0F + 0x1.8p-10F), 0x3C02);
}

TEST(Half, ComesBack) {
  for (unsigned bits = 0; bits < 0x7C00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const auto fraction = static_cast<float>(bits & 0x3FFU) / 1024.0F;
    const float value =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0F + fraction, exponent - 15);
    ASSERT_EQ(float_to_half(value), bits);
  }
}

TEST(Half, KeepsNaNAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_to_half(infinity), 0x7C00);
  EXPECT_EQ(float_to_half(std::nanf("")) & 0x7E00, 0x7E00);
  EXPECT_EQ(float_to_bfloat16(-infinity), 0xFF80);
  EXPECT_GT(float_to_bfloat16(std::bit_cast<float>(0x7F800001U)), 0x7F80);
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bfloat16(1.0F + 0x1p-8F), 0x3F80);  // a tie
  EXPECT_EQ(float_to_bfloat16(1.0F + 0x1.8p-7F), 0x3F82);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(NarrowToOdd, RoundsOnceThroughFloat) {
  // Just above the tie between 1 and 1 + 2^-10: float alone would land on the tie.
  const double value = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(float_to_half(static_cast<float>(value)), 0x3C00);
  EXPECT_EQ(float_to_half(narrow_to_odd(value)), 0x3C01);
}

}  // namespace
}  // namespace xrt
