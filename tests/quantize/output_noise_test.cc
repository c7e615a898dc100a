// SPDX-License-Identifier: Apache-2.0
#include "quantize/output_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace xrt::quantization {
namespace {

// A row of columns with these amplitudes, `rows` times with alternating signs, and the same with
// these errors.
struct Table {
  Table(const std::vector<float>& amplitudes, const std::vector<float>& errors, std::int64_t rows)
      : wanted(Tensor::allocate(DType::kFloat32,
                                {rows, static_cast<std::int64_t>(amplitudes.size())})),
        found(wanted.clone()) {
    for (std::int64_t k = 0; k < wanted.count(); ++k) {
      const std::size_t column = static_cast<std::size_t>(k) % amplitudes.size();
      const float sign = k % 3 == 0 ? -1.0F : 1.0F;
      wanted.data<float>()[k] = sign * amplitudes[column];
      found.data<float>()[k] = sign * amplitudes[column] + errors[column];
    }
  }
  double decibels() const {
    OutputNoise noise;
    noise.add(wanted, found);
    return noise.decibels();
  }
  Tensor wanted, found;
};

double decibels_of(double signal, double noise) { return 20 * std::log10(signal / noise); }

TEST(OutputNoise, LargeColumnsDoNotHideSmallOnes) {
  const Table detector({300, 300, 200, 200, 0.9F, 0.5F}, {1, 1, 1, 1, 0.3F, 0.3F}, 50);
  const double scores = decibels_of(std::sqrt(0.81 + 0.25), std::sqrt(0.18));
  EXPECT_NEAR(detector.decibels(), scores, 0.01);
}

TEST(OutputNoise, ColumnsOfLikeRangeCountTogether) {
  const Table logits({8, 5, 2, 1}, {0.1F, 0.1F, 0.1F, 0.1F}, 50);
  EXPECT_NEAR(logits.decibels(), decibels_of(std::sqrt(64.0 + 25 + 4 + 1), 0.2), 0.01);
}

TEST(OutputNoise, OneSmallColumnOfManyDoesNotStandForTheOutput) {
  std::vector<float> amplitudes(100, 10.0F);
  amplitudes[7] = 0.01F;
  const Table logits(amplitudes, std::vector<float>(100, 0.1F), 20);
  EXPECT_NEAR(logits.decibels(), decibels_of(10, 0.1), 0.1);
}

TEST(OutputNoise, NothingAddedOrNoDifferenceIsNoNoise) {
  EXPECT_EQ(OutputNoise().decibels(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Table({1, 2}, {0, 0}, 3).decibels(), std::numeric_limits<double>::infinity());
}

TEST(OutputNoise, ALastAxisOfOtherLengthIsTakenAsAWhole) {
  const Table two({300, 0.9F}, {1, 0.3F}, 10);
  const Table three({300, 300, 0.9F}, {1, 1, 0.3F}, 10);
  OutputNoise noise;
  noise.add(two.wanted, two.found);
  noise.add(three.wanted, three.found);
  EXPECT_GT(noise.decibels(), 40);
}

}  // namespace
}  // namespace xrt::quantization
