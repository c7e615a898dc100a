// SPDX-License-Identifier: Apache-2.0
#include "quantize/observer.h"

#include <fmt/format.h>

#include <algorithm>

#include "quantize/histogram.h"
#include "quantize/quantile_sketch.h"
#include "xrt/error.h"

namespace xrt::quantization {
namespace {

// With zero, which every range holds.
ValueRange extent(std::span<const float> elements) {
  ValueRange range;
  for (const float v : elements) {
    range.low = std::min(range.low, v);
    range.high = std::max(range.high, v);
  }
  return range;
}

class MinMaxObserver final : public Observer {
 public:
  void add(std::span<const float> elements) override {
    const ValueRange seen = extent(elements);
    range_ = {std::min(range_.low, seen.low), std::max(range_.high, seen.high)};
  }
  ValueRange range() const override { return range_; }

 private:
  ValueRange range_;
};

// Each sample's least and largest element moves the range by a part of the difference.
class MovingAverageObserver final : public Observer {
 public:
  explicit MovingAverageObserver(double factor) : factor_(factor) {}

  void add(std::span<const float> elements) override {
    if (elements.empty()) return;
    const auto [least, largest] = std::minmax_element(elements.begin(), elements.end());
    const double part = is_first_ ? 1 : factor_;
    low_ += part * (*least - low_);
    high_ += part * (*largest - high_);
    is_first_ = false;
  }
  ValueRange range() const override {
    return {static_cast<float>(std::min(low_, 0.0)), static_cast<float>(std::max(high_, 0.0))};
  }

 private:
  double factor_;
  double low_ = 0, high_ = 0;
  bool is_first_ = true;
};

class PercentileObserver final : public Observer {
 public:
  explicit PercentileObserver(double percentile) : cut_((100 - percentile) / 200) {}

  void add(std::span<const float> elements) override { sketch_.add(elements); }
  ValueRange range() const override {
    return {std::min(sketch_.quantile(cut_), 0.0F), std::max(sketch_.quantile(1 - cut_), 0.0F)};
  }

 private:
  double cut_;  // of the elements, at either end
  QuantileSketch sketch_;
};

class EntropyObserver final : public Observer {
 public:
  void add(std::span<const float> elements) override { histogram_.add(elements); }
  ValueRange range() const override { return histogram_.least_divergence(); }

 private:
  Histogram histogram_;
};

class MseObserver final : public Observer {
 public:
  void add(std::span<const float> elements) override { histogram_.add(elements); }
  ValueRange range() const override { return histogram_.least_squared_error(); }

 private:
  Histogram histogram_;
};

}  // namespace

std::unique_ptr<Observer> make_observer(const QuantizeOptions& options) {
  if (!(options.percentile > 50 && options.percentile <= 100)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a percentile of {}: it must be above 50 and at most 100", options.percentile));
  }
  if (!(options.average_factor > 0 && options.average_factor <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a factor of {} for the moving average: it must be above 0 and at most "
                            "1",
                            options.average_factor));
  }
  switch (options.clipping) {
    case Clipping::kMinMax:
      break;
    case Clipping::kMovingAverage:
      return std::make_unique<MovingAverageObserver>(options.average_factor);
    case Clipping::kPercentile:
      return std::make_unique<PercentileObserver>(options.percentile);
    case Clipping::kEntropy:
      return std::make_unique<EntropyObserver>();
    case Clipping::kMse:
      return std::make_unique<MseObserver>();
  }
  return std::make_unique<MinMaxObserver>();
}

}  // namespace xrt::quantization
