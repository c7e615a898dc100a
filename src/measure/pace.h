// SPDX-License-Identifier: Apache-2.0
// How a measurement goes on: what ends it early, and how it makes way for runs of users.
//
// Beside runs it works in turns of a few milliseconds, or of one run where that takes longer. After
// a turn it waits until no program of the process has run for as long as the turn took, but at most
// four times as long, and never longer than a second: it takes what is left of an idle process, and
// a fifth of a busy one.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "measure/user_runs.h"
#include "xrt/export.h"

namespace xrt {

struct MeasuringRules {
  std::function<bool()> stop = {};  // true: end with what is known. May be empty
  bool beside_runs = false;         // runs of the process's programs go first
};

class XRT_API Pace {
 public:
  // `rules` outlive this object.
  explicit Pace(const MeasuringRules& rules);

  bool stopped() const { return rules_.stop && rules_.stop(); }
  // Since the object was made, in seconds, breaks left out.
  double spent() const;
  // To be called before each turn.
  void take_break();

 private:
  using Clock = std::chrono::steady_clock;

  const MeasuringRules& rules_;
  std::optional<WatchUserRuns> watch_;  // where others go first
  Clock::time_point start_ = Clock::now();
  Clock::time_point turn_ = start_;  // the last break's end
  Clock::duration breaks_{0};
};

}  // namespace xrt
