// SPDX-License-Identifier: Apache-2.0
#include "quantize/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "xrt/error.h"

namespace xrt::quantization {
namespace {

std::vector<float> normal(std::size_t size, float scale) {
  std::mt19937 generator(0);
  std::normal_distribution<float> distribution(0, scale);
  std::vector<float> result(size);
  for (float& v : result) v = distribution(generator);
  return result;
}

ValueRange range_of(const std::vector<std::vector<float>>& samples, Clipping clipping,
                    double percentile = 99.99, double factor = 0.01) {
  QuantizeOptions options;
  options.clipping = clipping;
  options.percentile = percentile;
  options.average_factor = factor;
  const std::unique_ptr<Observer> observer = make_observer(options);
  for (const std::vector<float>& sample : samples) observer->add(sample);
  return observer->range();
}

TEST(Observers, SeeNothingAsZero) {
  for (int i = 0; i < static_cast<int>(clipping_names().size()); ++i) {
    const auto clipping = static_cast<Clipping>(i);
    for (const std::vector<float>& sample :
         {std::vector<float>(), std::vector<float>(1000, 0.0F)}) {
      const ValueRange range = range_of({sample}, clipping);
      EXPECT_EQ(range.low, 0) << clipping_names()[static_cast<std::size_t>(i)];
      EXPECT_EQ(range.high, 0);
    }
  }
}

TEST(Observers, RefuseWhatIsOutOfRange) {
  for (const double bad : {50.0, 100.1, std::nan("")}) {
    EXPECT_THROW(range_of({}, Clipping::kPercentile, bad), Error);
  }
  for (const double bad : {0.0, 1.1, std::nan("")}) {
    EXPECT_THROW(range_of({}, Clipping::kMovingAverage, 99, bad), Error);
  }
}

TEST(Observers, MinMaxKeepsTheExtremesOfAllSamples) {
  const ValueRange range = range_of({{1, 2}, {-3, 0.5F}, {7}}, Clipping::kMinMax);
  EXPECT_EQ(range.low, -3);
  EXPECT_EQ(range.high, 7);
}

TEST(Observers, TheMovingAverageFollowsEachSample) {
  // The first sample sets it; the second moves it by a quarter of the difference.
  const ValueRange range = range_of({{-4, 8}, {-8, 4}}, Clipping::kMovingAverage, 99.99, 0.25);
  EXPECT_FLOAT_EQ(range.low, -5);
  EXPECT_FLOAT_EQ(range.high, 7);
  // What has no element below zero begins there.
  EXPECT_EQ(range_of({{2, 8}}, Clipping::kMovingAverage).low, 0);
}

TEST(Observers, PercentilesAreThoseOfTheElements) {
  std::vector<std::vector<float>> samples;
  std::vector<float> seen;
  for (const float scale : {0.01F, 1.0F, 20.0F}) {
    samples.push_back(normal(20000, scale));
    seen.insert(seen.end(), samples.back().begin(), samples.back().end());
  }
  samples.push_back({1e30F});  // one that is far away takes nothing from the others
  seen.push_back(1e30F);
  std::sort(seen.begin(), seen.end());
  for (const double percentile : {90.0, 99.0, 99.9}) {
    const ValueRange range = range_of(samples, Clipping::kPercentile, percentile);
    const auto cut =
        static_cast<std::size_t>(static_cast<double>(seen.size()) * (100 - percentile) / 200);
    EXPECT_NEAR(range.low / seen[cut], 1, 0.01) << percentile;
    EXPECT_NEAR(range.high / seen[seen.size() - 1 - cut], 1, 0.01) << percentile;
  }
  const ValueRange all = range_of(samples, Clipping::kPercentile, 100);
  EXPECT_EQ(all.low, seen.front());
  EXPECT_EQ(all.high, seen.back());
}

double squared_error(const std::vector<float>& values, ValueRange range) {
  const double step = (double{range.high} - range.low) / 255;
  double sum = 0;
  for (const float v : values) {
    const double q = std::clamp(std::nearbyint((v - range.low) / step), 0.0, 255.0);
    sum += std::pow(v - (range.low + q * step), 2);
  }
  return sum;
}

TEST(Observers, LeastSquaredErrorIsNearTheBestThereIs) {
  for (const float outlier : {8.0F, 16.0F, 60.0F}) {
    std::vector<float> values = normal(200000, 1);
    values.push_back(outlier);
    const double found = squared_error(values, range_of({values}, Clipping::kMse));
    double best = squared_error(values, range_of({values}, Clipping::kMinMax));
    for (double high = 2; high < outlier; high *= 1.02) {
      for (double low = 3; low < 6; low *= 1.1) {
        const ValueRange range = {static_cast<float>(-low), static_cast<float>(high)};
        best = std::min(best, squared_error(values, range));
      }
    }
    EXPECT_LT(found, 1.05 * best) << outlier;
  }
}

TEST(Observers, EntropyCutsOutliersButNotARelu) {
  std::vector<float> values = normal(500000, 1);
  values.push_back(40);
  const ValueRange cut = range_of({values}, Clipping::kEntropy);
  EXPECT_LT(cut.high, 20);
  EXPECT_LT(cut.low, -2);
  for (float& v : values) v = std::clamp(v, 0.0F, 4.0F);
  EXPECT_GT(range_of({values}, Clipping::kEntropy).high, 2.5);
}

}  // namespace
}  // namespace xrt::quantization
