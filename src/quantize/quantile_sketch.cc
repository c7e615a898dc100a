// SPDX-License-Identifier: Apache-2.0
#include "quantize/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace xrt::quantization {
namespace {

constexpr std::uint32_t kSign = 0x80000000U;
constexpr int kDroppedBits = 16;

// Grows with the number: the bits of a positive float do, those of a negative one shrink.
std::uint32_t place_of(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// The least number of a place.
float number_at(std::uint32_t place) {
  return std::bit_cast<float>((place & kSign) != 0 ? place & ~kSign : ~place);
}

}  // namespace

void QuantileSketch::add(std::span<const float> elements) {
  if (elements.empty()) return;
  const auto [least, largest] = std::minmax_element(elements.begin(), elements.end());
  low_ = total_ == 0 ? *least : std::min(low_, *least);
  high_ = total_ == 0 ? *largest : std::max(high_, *largest);
  total_ += static_cast<std::int64_t>(elements.size());
  for (const float v : elements) {
    // Minus zero and zero are one number.
    const std::uint32_t bin = place_of(v == 0 ? 0.0F : v) >> kDroppedBits;
    std::unique_ptr<Page>& page = pages_[bin / kBinsPerPage];
    if (page == nullptr) page = std::make_unique<Page>();
    ++(*page)[bin % kBinsPerPage];
  }
}

float QuantileSketch::quantile(double part) const {
  if (part <= 0) return low_;
  if (part >= 1) return high_;
  const double wanted = part * static_cast<double>(total_ - 1);
  double passed = 0;
  for (std::size_t p = 0; p < pages_.size(); ++p) {
    if (pages_[p] == nullptr) continue;
    for (std::size_t i = 0; i < kBinsPerPage; ++i) {
      const auto count = static_cast<double>((*pages_[p])[i]);
      if (count == 0 || passed + count <= wanted) {
        passed += count;
        continue;
      }
      // Zero has no neighbours in its bin but numbers too small to matter.
      const auto bin = static_cast<std::uint32_t>(p * kBinsPerPage + i);
      const double from = number_at(bin << kDroppedBits);
      if (from == 0) return 0;
      const double to = number_at((bin << kDroppedBits) | ((1U << kDroppedBits) - 1));
      const double inside = count == 1 ? 0.5 : (wanted - passed) / (count - 1);
      return std::clamp(static_cast<float>(from + std::clamp(inside, 0.0, 1.0) * (to - from)), low_,
                        high_);
    }
  }
  return high_;
}

}  // namespace xrt::quantization
