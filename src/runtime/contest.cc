// SPDX-License-Identifier: Apache-2.0
#include "runtime/contest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace xrt {
namespace {

// The median over the rounds of a's time over b's: drift of the machine meets both alike.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

// Whether `a` was slower than `b` in the same round more often than 2.6 standard deviations above
// what equal things would show: the question is asked after every round.
bool is_slower(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(std::min(a.size(), b.size()));
  double slower = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] > b[i]) slower += 1;
    if (a[i] == b[i]) slower += 0.5;
  }
  return slower >= n / 2 + 1.3 * std::sqrt(n);
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
      if (median_ratio(times[i], times[leader]) < 1) leader = i;
    }
    if (round + 1 < limits.minimum) continue;
    std::erase_if(left, [&](std::size_t i) { return is_slower(times[i], times[leader]); });
    const bool equal = std::all_of(left.begin(), left.end(), [&](std::size_t i) {
      return median_ratio(times[i], times[leader]) <= 1 + limits.enough;
    });
    if (equal && round + 1 >= 2 * limits.minimum) break;
  }
  return leader;
}

}  // namespace xrt
