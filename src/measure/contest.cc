// SPDX-License-Identifier: Apache-2.0
#include "measure/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace xrt {
namespace {

// What rounds say about a's time over b's in the same round: drift of the machine meets both alike.
struct Ratio {
  double low = 0, median = 1, high = std::numeric_limits<double>::infinity();
};

// The bounds hold whatever the times' distribution is: so many of n ratios lie below the true
// median as heads fall in n throws, and 2.6 standard deviations of that are left out on each side,
// because the question is asked after every round. Below seven rounds there are no bounds.
Ratio ratio_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  std::sort(ratios.begin(), ratios.end());
  Ratio result;
  if (ratios.empty()) return result;
  result.median = ratios[ratios.size() / 2];
  const auto n = static_cast<double>(ratios.size());
  const double rank = std::floor(n / 2 - 1.3 * std::sqrt(n));
  if (rank < 0) return result;
  result.low = ratios[static_cast<std::size_t>(rank)];
  result.high = ratios[ratios.size() - 1 - static_cast<std::size_t>(rank)];
  return result;
}

}  // namespace

std::size_t contest(std::size_t count, const ContestLimits& limits, const ContestRules& rules) {
  std::vector<std::size_t> left(count);
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<std::vector<double>> times(count);
  std::size_t leader = 0;
  const double start = rules.now_s();
  for (int round = 0; round < limits.maximum && left.size() > 1; ++round) {
    if (rules.now_s() - start >= limits.seconds || (rules.stop && rules.stop())) break;
    // There and back: nothing always follows the same other one.
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::size_t which = left[round % 2 == 0 ? i : left.size() - 1 - i];
      times[which].push_back(rules.turn(which));
    }
    for (const std::size_t i : left) {
      if (ratio_of(times[i], times[leader]).median < 1) leader = i;
    }
    if (round + 1 < limits.minimum) continue;
    std::erase_if(left, [&](std::size_t i) {
      const Ratio ratio = ratio_of(times[i], times[leader]);
      return ratio.low > 1 && ratio.median > 1 + limits.tie;
    });
    const bool known = std::all_of(left.begin(), left.end(), [&](std::size_t i) {
      const Ratio ratio = ratio_of(times[i], times[leader]);
      return i == leader || (ratio.low >= 1 - limits.enough && ratio.high <= 1 + limits.enough);
    });
    if (known) break;
  }
  // The first of those that are as good as the leader: nothing here tells them apart.
  for (const std::size_t i : left) {
    if (i == leader) break;
    const Ratio ratio = ratio_of(times[i], times[leader]);
    if (ratio.median <= 1 + limits.tie && ratio.high <= 1 + limits.enough) return i;
  }
  return leader;
}

}  // namespace xrt
