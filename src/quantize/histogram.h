// SPDX-License-Identifier: Apache-2.0
// How the elements of a value are distributed, gathered in one pass: when a larger element comes,
// the bins become twice as wide, so that no range need be known before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xrt/quantize.h"

namespace xrt::quantization {

class Histogram {
 public:
  // False, and nothing is added, where an element is not finite.
  bool add(std::span<const float> elements);
  // The range that gets the steps; zero is inside.
  ValueRange range(Clipping clipping, double percentile) const;

 private:
  static constexpr int kBins = 8192;  // over [-limit_, limit_]
  void widen(float magnitude);
  double center(int bin) const { return (bin + 0.5) * width_ - limit_; }
  ValueRange percentile_range(double percentile) const;
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
