// SPDX-License-Identifier: Apache-2.0
#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace xrt::quantization {
namespace {

constexpr int kSteps = 256;                            // of uint8
constexpr int kCandidatesPerOctave = 16;               // of clipped ranges
constexpr int kCandidates = 8 * kCandidatesPerOctave;  // down to 1 / 256 of the whole

}  // namespace

void Histogram::add(std::span<const float> elements) {
  float low = 0, high = 0;
  for (const float v : elements) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  widen(std::max(-low, high));
  low_ = std::min(low_, low);
  high_ = std::max(high_, high);
  total_ += static_cast<std::int64_t>(elements.size());
  if (limit_ == 0) return;  // nothing but zeros so far
  const double factor = 1 / width_;
  for (const float v : elements) {
    const int bin = static_cast<int>((v + limit_) * factor);
    ++counts_[static_cast<std::size_t>(std::clamp(bin, 0, kBins - 1))];
  }
}

void Histogram::widen(float magnitude) {
  if (magnitude == 0 || magnitude <= limit_) return;
  if (limit_ == 0) {
    counts_.assign(kBins, 0);
    limit_ = magnitude;
    width_ = 2 * limit_ / kBins;
    counts_[kBins / 2] = total_;  // the zeros before
    return;
  }
  while (limit_ < magnitude) {
    std::vector<std::int64_t> wider(kBins, 0);
    for (int bin = 0; bin < kBins; ++bin) {
      wider[static_cast<std::size_t>(kBins / 4 + bin / 2)] +=
          counts_[static_cast<std::size_t>(bin)];
    }
    counts_ = std::move(wider);
    limit_ *= 2;
    width_ *= 2;
  }
}

ValueRange Histogram::least_divergence() const {
  return best_range([this](const ValueRange& r) { return divergence(r); });
}

ValueRange Histogram::least_squared_error() const {
  return best_range([this](const ValueRange& r) { return squared_error(r); });
}

// One end is pulled in, then the other, twice; the widest of equally good ranges is kept.
// Candidates are a constant factor apart: an outlier a hundred times as large as all else leaves as
// many to choose from as none.
template <typename Loss>
ValueRange Histogram::best_range(Loss loss) const {
  ValueRange best = {low_, high_};
  if (limit_ == 0) return best;
  double least = loss(best);
  for (const bool upper : {true, false, true, false}) {
    const float whole = upper ? high_ : low_;
    for (int i = 0; i <= kCandidates && whole != 0; ++i) {
      ValueRange candidate = best;
      (upper ? candidate.high : candidate.low) =
          whole * static_cast<float>(std::exp2(-static_cast<double>(i) / kCandidatesPerOctave));
      const double value = loss(candidate);
      if (value < least) best = candidate, least = value;
    }
  }
  return best;
}

double Histogram::squared_error(const ValueRange& range) const {
  const double step = (double{range.high} - range.low) / (kSteps - 1);
  double sum = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    const auto count = static_cast<double>(counts_[static_cast<std::size_t>(bin)]);
    if (count == 0) continue;
    const double v = center(bin);
    const double q = std::clamp(std::nearbyint((v - range.low) / step), 0.0, kSteps - 1.0);
    const double error = v - (range.low + q * step);
    sum += count * error * error;
  }
  return sum;
}

// Of the distribution, what is outside counted at the ends, from what 256 steps leave of it. Zeros,
// which a Relu makes many of, are left out: they are exact, but spread over the bins of their step
// they would drown everything else.
double Histogram::divergence(const ValueRange& range) const {
  const int first = std::clamp(static_cast<int>((range.low + limit_) / width_), 0, kBins - 1);
  const int last = std::clamp(static_cast<int>((range.high + limit_) / width_), first, kBins - 1);
  const auto bins = static_cast<std::size_t>(last - first + 1);
  // Fewer bins than steps cannot show what the steps change.
  if (bins < kSteps) return std::numeric_limits<double>::infinity();
  std::vector<double> p(bins, 0), q(bins, 0);
  for (int bin = 0; bin < kBins; ++bin) {
    if (bin == kBins / 2) continue;
    const auto count = static_cast<double>(counts_[static_cast<std::size_t>(bin)]);
    p[static_cast<std::size_t>(std::clamp(bin, first, last) - first)] += count;
    if (bin >= first && bin <= last) q[static_cast<std::size_t>(bin - first)] = count;
  }
  double all = 0, kept = 0;
  for (const double v : p) all += v;
  for (const double v : q) kept += v;
  // Each step's elements are spread evenly over those of its bins that held any.
  for (int step = 0; step < kSteps; ++step) {
    const std::size_t from = bins * static_cast<std::size_t>(step) / kSteps;
    const std::size_t to = bins * (static_cast<std::size_t>(step) + 1) / kSteps;
    double sum = 0, used = 0;
    for (std::size_t i = from; i < to; ++i) sum += q[i], used += p[i] > 0 ? 1 : 0;
    for (std::size_t i = from; i < to; ++i) q[i] = p[i] > 0 ? sum / used : 0;
  }
  if (kept == 0) return std::numeric_limits<double>::infinity();
  constexpr double kSmallest = 1e-9;  // stands for "never" where p holds something and q does not
  double result = 0;
  for (std::size_t i = 0; i < bins; ++i) {
    if (p[i] == 0) continue;
    const double share = p[i] / all;
    result += share * std::log(share / std::max(q[i] / kept, kSmallest));
  }
  return result;
}

}  // namespace xrt::quantization
