// SPDX-License-Identifier: Apache-2.0
// What the loss of the next step is scaled by.
#pragma once

#include <cstdint>
#include <optional>

#include "xrt/precision.h"
#include "xrt/trainer.h"

namespace xrt {

class LossScale {
 public:
  // `precision`: of the program; nullopt is "auto". kInvalidArgument for options that make no
  // sense.
  LossScale(const LossScaleOptions& options, std::optional<Precision> precision);

  bool is_used() const { return kind_ != Kind::kNone; }
  double value() const { return now_.scale; }
  std::int64_t skipped() const { return now_.skipped; }
  // Behind step `step`: whether its gradients were finite.
  void update(bool finite, std::int64_t step);

  // What a checkpoint keeps.
  struct State {
    double scale = 1;
    std::int64_t in_a_row = 0;  // steps since the scale changed that were not skipped
    std::int64_t skipped = 0;
  };
  const State& state() const { return now_; }
  // A scale that is not used, or was not where `state` comes from, stays as it is.
  void restore(const State& state, bool was_used);

 private:
  enum class Kind : std::uint8_t { kNone, kStatic, kDynamic };

  LossScaleOptions options_;
  Kind kind_ = Kind::kNone;
  State now_;
};

}  // namespace xrt
