// SPDX-License-Identifier: Apache-2.0
#include "training/loss_scale.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/log.h"
#include "xrt/error.h"

namespace xrt {
namespace {

void need(bool fits, const char* what, double given) {
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("loss_scale: {}; it is {}", what, given));
}

}  // namespace

LossScale::LossScale(const LossScaleOptions& options, std::optional<Precision> precision)
    : options_(options) {
  const bool is_half = !precision || *precision == Precision::kF16;
  if (options.kind == "dynamic" || (options.kind.empty() && is_half)) {
    kind_ = Kind::kDynamic;
  } else if (options.kind == "static") {
    kind_ = Kind::kStatic;
  } else if (options.kind != "none" && !options.kind.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("loss_scale '{}' is not known; there are dynamic, static, none", options.kind));
  }
  if (!is_used()) return;
  constexpr double kLargest = std::numeric_limits<float>::max();
  need(options.initial > 0 && options.initial <= kLargest, "initial must be a positive float32",
       options.initial);
  now_.scale = options.initial;
  if (kind_ == Kind::kStatic) return;
  need(options.growth >= 1 && options.growth <= kLargest, "growth must be at least 1",
       options.growth);
  need(options.backoff > 0 && options.backoff < 1, "backoff must be between 0 and 1",
       options.backoff);
  need(options.growth_interval >= 1, "growth_interval must be at least 1",
       static_cast<double>(options.growth_interval));
}

void LossScale::update(bool finite, std::int64_t step) {
  if (!is_used()) return;
  if (!finite) ++now_.skipped;
  if (kind_ == Kind::kStatic) {
    if (!finite) log_info(fmt::format("step {} is skipped: a gradient is not finite", step));
    return;
  }
  if (finite) {
    if (++now_.in_a_row < options_.growth_interval) return;
    now_.in_a_row = 0;
    const double grown = now_.scale * options_.growth;
    if (grown <= std::numeric_limits<float>::max()) now_.scale = grown;
    return;
  }
  now_.in_a_row = 0;
  const double before = now_.scale;
  // Not to zero, by which nothing can be divided.
  now_.scale = std::fmax(before * options_.backoff, std::numeric_limits<float>::min());
  log_info(fmt::format("step {} is skipped: a gradient is not finite; the loss scale is now {:g}",
                       step, now_.scale));
  if (before >= 1 && now_.scale < 1) {
    log_warning(fmt::format(
        "step {}: gradients are not finite at a loss scale of {:g} either: {} steps are skipped so "
        "far; detect_anomaly names the node that makes the first such value of the forward pass",
        step, before, now_.skipped));
  }
}

void LossScale::restore(const State& state, bool was_used) {
  if (is_used() && was_used) {
    now_ = state;
  } else {
    now_.skipped = state.skipped;
  }
}

}  // namespace xrt
