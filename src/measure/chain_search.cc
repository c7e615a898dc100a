// SPDX-License-Identifier: Apache-2.0
#include "measure/chain_search.h"

#include <algorithm>
#include <limits>

namespace xrt {

ChainPlan best_chain(const ChainCosts& costs) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  struct State {
    double us = std::numeric_limits<double>::infinity();
    std::size_t first = 0;   // of the last function
    std::size_t before = 0;  // engine of the function before it
  };
  const std::size_t n = costs.pieces;
  const std::size_t m = costs.engines;
  ChainPlan plan;
  if (n == 0) return plan;
  // best[j][e]: pieces [0, j), the last function on engine e.
  std::vector<std::vector<State>> best(n + 1, std::vector<State>(m));
  for (std::size_t j = 1; j <= n; ++j) {
    for (std::size_t e = 0; e < m; ++e) {
      State& state = best[j][e];
      for (std::size_t i = 0; i < j; ++i) {
        const double own = costs.function_us(i, j, e);
        if (own == kNever) continue;
        if (i == 0) {
          if (own < state.us) state = {own, 0, e};
          continue;
        }
        for (std::size_t other = 0; other < m; ++other) {
          if (other == e || best[i][other].us == kNever) continue;
          const double us = best[i][other].us + costs.transfer_us(i, other, e) + own;
          if (us < state.us) state = {us, i, other};
        }
      }
    }
  }
  std::size_t engine = 0;
  for (std::size_t e = 1; e < m; ++e) {
    if (best[n][e].us < best[n][engine].us) engine = e;
  }
  plan.us = m == 0 ? kNever : best[n][engine].us;
  if (plan.us == kNever) return plan;
  for (std::size_t j = n; j > 0;) {
    const State& state = best[j][engine];
    plan.parts.push_back({state.first, j, engine});
    j = state.first;
    engine = state.before;
  }
  std::reverse(plan.parts.begin(), plan.parts.end());
  return plan;
}

}  // namespace xrt
