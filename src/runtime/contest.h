// SPDX-License-Identifier: Apache-2.0
// Which of several things is the fastest, where they are nearly equally fast.
//
// Times of one thing vary by more than two good plans differ, and they drift: the machine warms up,
// others use it. So the things are timed in rounds, and compared round by round. One that was
// slower than the leader in so many rounds that chance hardly explains it is out; the time it would
// have taken goes to those that are left.
#pragma once

#include <cstddef>
#include <functional>

#include "xrt/export.h"

namespace xrt {

struct ContestLimits {
  int minimum = 5;       // rounds before anything is decided
  int maximum = 40;      // rounds
  double seconds = 1.0;  // no round begins after these
  double enough =
      0.005;  // those left that differ by less than this share are as good as each other
};

struct ContestRules {
  // Times one of them, once; in any unit.
  std::function<double(std::size_t which)> turn;
  std::function<double()> now_s;  // a clock that never goes back
  std::function<bool()> stop = {};
};

// The fastest of `count` (at least 1) by the median over the rounds of one's time over another's.
// Without a single round it is the first.
XRT_API std::size_t contest(std::size_t count, const ContestLimits& limits,
                            const ContestRules& rules);

}  // namespace xrt
