// SPDX-License-Identifier: Apache-2.0
// Steps that passes and function expansion share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Copies the nodes and constants of `body` into `graph`, its inputs replaced by `inputs` (an
// invalid id: absent) and its captures by what they capture, which must be values of `graph`. Names
// are preceded by `prefix` and made unique. Returns what the body's outputs are now.
XRT_API std::vector<ValueId> splice(Graph& graph, const Graph& body,
                                    std::span<const ValueId> inputs, const std::string& prefix);

// Everything that reads `old` reads `by` instead. A graph output keeps its name: where `old` is
// one, `by` takes over its name, or, if it has to keep its own (an input, a constant, another
// output), an Identity is put between them.
XRT_API void replace_value(Graph& graph, ValueId old, ValueId by);

// True where replace_value(graph, old, by) needs no Identity.
XRT_API bool can_replace_value(const Graph& graph, ValueId old, ValueId by);

// Replaces a node by what a body does: `inputs` are those of the body, the body's outputs are those
// that the node has, without the absent ones.
XRT_API void replace_node(Graph& graph, NodeId node, const Graph& body,
                          std::span<const ValueId> inputs);

// Calls visit(inner graph) for each sub-graph of each node, through edit_subgraph or for lists of
// graphs not at all; true if any call returned true.
template <typename Visit>
bool edit_subgraphs(Graph& graph, NodeId id, Visit&& visit) {
  std::vector<std::string> names;
  for (const auto& [name, value] : graph.node(id).attributes) {
    if (std::holds_alternative<std::shared_ptr<Graph>>(value)) names.push_back(name);
  }
  bool changed = false;
  for (const std::string& name : names) {
    graph.edit_subgraph(id, name, [&](Graph& body) { changed = visit(body) || changed; });
  }
  return changed;
}

}  // namespace xrt
