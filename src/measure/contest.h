// SPDX-License-Identifier: Apache-2.0
// Which of several things is the fastest, where they are nearly equally fast.
//
// Times of one thing vary by more than two good plans differ, and they drift: the machine warms up,
// others use it. So the things are timed in rounds, there and back, and compared round by round: of
// the ratios to the leader's times come a median and the bounds that it lies between. One that is
// slower than chance explains is out; the time it would have taken goes to those that are left.
// It ends when all that are left are known to be as fast as the leader, or the time is over. Among
// these the first wins: the order in which they are given is the preference.
#pragma once

#include <cstddef>
#include <functional>

#include "xrt/export.h"

namespace xrt {

struct ContestLimits {
  int minimum = 5;       // rounds before anything is decided
  int maximum = 100;     // rounds
  double seconds = 1.0;  // no round begins after these
  // Two are as fast as each other if the bounds of their ratio differ from 1 by at most `enough`,
  // and its median by at most `tie`.
  double enough = 0.02;
  double tie = 0.01;
};

struct ContestRules {
  // Times one of them, once; in any unit.
  std::function<double(std::size_t which)> turn;
  std::function<double()> now_s;  // a clock that never goes back
  std::function<bool()> stop = {};
};

// The fastest of `count` (at least 1) by the median over the rounds of one's time over another's,
// or one before it that is as fast. Without a single round it is the first.
XRT_API std::size_t contest(std::size_t count, const ContestLimits& limits,
                            const ContestRules& rules);

}  // namespace xrt
