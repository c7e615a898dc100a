// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "xrt/error.h"
#include "xrt/trainer.h"

namespace xrt {
namespace {

using Schedule = std::function<double(std::int64_t)>;

void check(double rate, std::int64_t warmup) {
  if (!(rate >= 0) || warmup < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a schedule's rate and its number of warm-up steps must not be negative");
  }
}

// The first `warmup` steps rise to `rate`; then `after` counts steps from 0 to `total` - warmup.
Schedule with_warmup(double rate, std::int64_t warmup, Schedule after) {
  check(rate, warmup);
  return [rate, warmup, after = std::move(after)](std::int64_t step) {
    if (step < warmup) return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
    return after(step - warmup);
  };
}

// The part of the way that is done, from 0 to 1.
double part(std::int64_t step, std::int64_t length) {
  return std::clamp(
      static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(length, 1)), 0.0, 1.0);
}

}  // namespace

Schedule constant_schedule(double rate, std::int64_t warmup) {
  return with_warmup(rate, warmup, [rate](std::int64_t) { return rate; });
}

Schedule step_schedule(double rate, std::int64_t every, double factor, std::int64_t warmup) {
  if (every < 1) throw Error(ErrorCode::kInvalidArgument, "step_schedule: every must be 1 or more");
  return with_warmup(rate, warmup, [=](std::int64_t step) {
    return rate * std::pow(factor, static_cast<double>(step / every));
  });
}

Schedule cosine_schedule(double rate, std::int64_t total, double last, std::int64_t warmup) {
  return with_warmup(rate, warmup, [=](std::int64_t step) {
    const double turn = std::cos(std::numbers::pi * part(step, total - warmup));
    return last + (rate - last) * 0.5 * (1 + turn);
  });
}

Schedule linear_schedule(double rate, std::int64_t total, double last, std::int64_t warmup) {
  return with_warmup(rate, warmup, [=](std::int64_t step) {
    return rate + (last - rate) * part(step, total - warmup);
  });
}

}  // namespace xrt
