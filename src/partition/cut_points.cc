// SPDX-License-Identifier: Apache-2.0
#include "partition/cut_points.h"

#include <algorithm>

#include "partition/cost.h"

namespace xrt {
namespace {

std::size_t place_of(NodeId id) { return static_cast<std::size_t>(id.index); }

}  // namespace

std::vector<Cut> narrow_cuts(const Graph& graph, const std::vector<NodeId>& order,
                             std::size_t max_values) {
  std::vector<std::size_t> position(graph.node_capacity(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) position[place_of(order[i])] = i;
  // A value made at i and last read at j crosses the cuts i+1 … j. A graph output crosses none by
  // that alone: nobody after the cut waits for it.
  struct Change {
    std::size_t values = 0, bytes = 0;
  };
  std::vector<Change> begins(order.size() + 1), ends(order.size() + 1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ValueId v : graph.node(order[i]).outputs) {
      if (!v.valid()) continue;
      std::size_t last = i;
      for (const Use& use : graph.uses(v)) last = std::max(last, position[place_of(use.node)]);
      if (last == i) continue;
      const std::size_t bytes = value_bytes(graph, v);
      ++begins[i + 1].values;
      begins[i + 1].bytes += bytes;
      ++ends[last].values;
      ends[last].bytes += bytes;
    }
  }
  std::vector<Cut> cuts;
  Change open;
  for (std::size_t p = 1; p < order.size(); ++p) {
    open.values += begins[p].values;
    open.bytes += begins[p].bytes;
    if (open.values <= max_values) cuts.push_back({p, open.values, open.bytes});
    open.values -= ends[p].values;
    open.bytes -= ends[p].bytes;
  }
  return cuts;
}

std::vector<Cut> choose_cuts(const std::vector<Cut>& cuts, const std::vector<double>& weights,
                             std::size_t pieces) {
  std::vector<double> before(weights.size() + 1, 0);  // weight of all nodes before a position
  for (std::size_t i = 0; i < weights.size(); ++i) before[i + 1] = before[i] + weights[i];
  const double total = before.back();
  std::vector<Cut> chosen;
  if (pieces < 2 || total <= 0) return chosen;
  const double step = total / static_cast<double>(pieces);
  for (std::size_t k = 1; k < pieces; ++k) {
    // Each cut has a window of one step around its even place, so windows do not overlap.
    const double middle = step * static_cast<double>(k);
    const double low = step * (static_cast<double>(k) - 0.5);
    const double high = step * (static_cast<double>(k) + 0.5);
    const Cut* best = nullptr;
    for (const Cut& cut : cuts) {
      const double w = before[cut.position];
      if (w < low || w >= high) continue;
      const bool nearer = best != nullptr && cut.bytes == best->bytes &&
                          std::abs(w - middle) < std::abs(before[best->position] - middle);
      if (best == nullptr || cut.bytes < best->bytes || nearer) best = &cut;
    }
    if (best != nullptr) chosen.push_back(*best);
  }
  return chosen;
}

}  // namespace xrt
