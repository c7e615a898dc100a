// SPDX-License-Identifier: Apache-2.0
// How the work of something grows with its size, whatever else the machine does.
#pragma once

#include <algorithm>
#include <ctime>
#include <limits>

namespace xrt {

// Processor time of `act`, in seconds: the least of three calls.
template <typename Act>
double processor_seconds(Act&& act) {
  double least = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < 3; ++turn) {
    const std::clock_t start = std::clock();
    act();
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

// What ten times the size may cost over the size itself: work that grows in proportion costs ten
// times as much, work that grows with the square a hundred times.
inline constexpr double kTenTimesTheSize = 40;

}  // namespace xrt
