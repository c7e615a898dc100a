// SPDX-License-Identifier: Apache-2.0
// Quantiles of numbers that come one after the other, without keeping them: numbers of one sign,
// exponent and first seven binary digits share a count. So a quantile is known to one part in 128
// of itself, however large a few outliers are.
//
// Idea: bins of equal relative width, as in C. Masson et al., "DDSketch", 2019.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

namespace xrt::quantization {

class QuantileSketch {
 public:
  void add(std::span<const float> elements);  // all finite
  // The number that `part` (0 … 1) of the elements are below; 0 before the first element.
  float quantile(double part) const;

 private:
  static constexpr int kBinsPerPage = 128;  // of one exponent
  static constexpr int kPages = 512;        // sign and exponent
  using Page = std::array<std::int64_t, kBinsPerPage>;

  std::array<std::unique_ptr<Page>, kPages> pages_;  // in increasing order; null: nothing there
  std::int64_t total_ = 0;
  float low_ = 0, high_ = 0;  // of all elements
};

}  // namespace xrt::quantization
