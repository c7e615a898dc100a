// SPDX-License-Identifier: Apache-2.0
#include "measure/pace.h"

#include <algorithm>
#include <thread>

namespace xrt {
namespace {

// A break is at most so many times as long as the turn before it, and at most this long: a turn may
// be a compilation of seconds, which no break makes up for.
constexpr int kBreakFactor = 4;
constexpr std::chrono::seconds kLongestBreak{1};
// Callers that run one after the other leave gaps that are no quiet time.
constexpr std::chrono::milliseconds kLeastQuiet{10};
constexpr std::chrono::milliseconds kLook{1};

}  // namespace

Pace::Pace(const MeasuringRules& rules) : rules_(rules) {
  if (rules.beside_runs) watch_.emplace();
}

double Pace::spent() const {
  return std::chrono::duration<double>(Clock::now() - start_ - breaks_).count();
}

void Pace::take_break() {
  if (!watch_) return;
  const Clock::time_point begin = Clock::now();
  const Clock::duration turn = begin - turn_;
  const Clock::duration quiet = std::max<Clock::duration>(turn, kLeastQuiet);
  const Clock::time_point end =
      begin + std::clamp<Clock::duration>(kBreakFactor * turn, kLook, kLongestBreak);
  while (Clock::now() < end && !stopped() && !watch_->quiet_for(quiet)) {
    std::this_thread::sleep_for(kLook);
  }
  turn_ = Clock::now();
  breaks_ += turn_ - begin;
}

}  // namespace xrt
