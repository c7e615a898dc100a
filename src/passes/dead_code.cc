// SPDX-License-Identifier: Apache-2.0
// Removes nodes none of whose outputs is read, and constants and captures nobody reads.
//
// A node with one live output stays whole. Inputs of the graph stay: they are its interface.
#include <algorithm>
#include <vector>

#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {
namespace {

bool unread(const Graph& graph, ValueId v) {
  return !v.valid() || (graph.uses(v).empty() && !graph.is_output(v));
}

bool remove_unread_values(Graph& graph) {
  std::vector<ValueId> dead;
  for (const ValueId v : graph.constants()) {
    if (unread(graph, v)) dead.push_back(v);
  }
  for (const Capture& c : graph.captures()) {
    if (unread(graph, c.inner)) dead.push_back(c.inner);
  }
  for (const ValueId v : dead) graph.remove_value(v);
  return !dead.empty();
}

}  // namespace

bool remove_dead_code(Graph& graph) {
  bool changed = false;
  std::vector<NodeId> order = graph.topological_order();
  std::reverse(order.begin(), order.end());
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const bool dead = std::all_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId v) { return unread(graph, v); });
    if (dead) {
      graph.remove_node(id);
      changed = true;
    } else {
      changed = edit_subgraphs(graph, id, remove_dead_code) || changed;
    }
  }
  return remove_unread_values(graph) || changed;
}

}  // namespace xrt
