// SPDX-License-Identifier: Apache-2.0
// How the elements of a value are distributed, gathered in one pass: when a larger element comes,
// the bins become twice as wide, so that no range need be known before. Its searches find the range
// that serves 256 steps best.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xrt/quantize.h"

namespace xrt::quantization {

class Histogram {
 public:
  void add(std::span<const float> elements);  // all finite
  // The range whose 256 steps change the distribution least (Kullback-Leibler divergence), and the
  // one with the least squared error; zero is inside.
  ValueRange least_divergence() const;
  ValueRange least_squared_error() const;

 private:
  static constexpr int kBins = 8192;  // over [-limit_, limit_]
  void widen(float magnitude);
  double center(int bin) const { return (bin + 0.5) * width_ - limit_; }
  template <typename Loss>
  ValueRange best_range(Loss loss) const;
  double squared_error(const ValueRange& range) const;
  double divergence(const ValueRange& range) const;

  std::vector<std::int64_t> counts_;
  double limit_ = 0, width_ = 0;
  float low_ = 0, high_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace xrt::quantization
