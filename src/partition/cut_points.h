// SPDX-License-Identifier: Apache-2.0
// Narrow places of a graph: where few values, and few bytes, lead from all that comes before to all
// that comes after. Placement considers changing the engine there and nowhere else.
//
// A cut is a position in the topological order: nodes before it on one side, the rest on the other.
// Both sides of every cut are convex, and so is all that lies between two cuts.
#pragma once

#include <cstddef>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct Cut {
  std::size_t position = 0;  // nodes [0, position) of the order lie before it
  std::size_t values = 0;    // computed values that cross it; graph inputs do not count
  std::size_t bytes = 0;
};

// Every place between nodes of `order` that at most `max_values` values cross. Linear in nodes plus
// edges.
XRT_API std::vector<Cut> narrow_cuts(const Graph& graph, const std::vector<NodeId>& order,
                                     std::size_t max_values = 1);

// At most `pieces` - 1 of the cuts, so that the pieces weigh about the same and the cuts are cheap:
// of those near an even split, the one that fewest bytes cross. `weights` follow the order.
XRT_API std::vector<Cut> choose_cuts(const std::vector<Cut>& cuts,
                                     const std::vector<double>& weights, std::size_t pieces);

}  // namespace xrt
