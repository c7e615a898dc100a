// SPDX-License-Identifier: Apache-2.0
// Searches around a node of a graph, as far as the plugin's own passes see.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ir/pattern.h"
#include "ops/op_facts.h"
#include "xrt/graph.h"

namespace xrt::openvino {

// So many nodes are looked at on the way to or from a node.
inline constexpr std::size_t kMostNodes = 64;

// Whether `looks` finds what it looks for in a node, or in those that it adds on the way.
template <typename Looks>
bool search(const Node* first, const Looks& looks) {
  std::vector<const Node*> nodes;
  const auto add = [&](const Node* node) {
    const bool is_new = node != nullptr && nodes.size() < kMostNodes &&
                        std::find(nodes.begin(), nodes.end(), node) == nodes.end();
    if (is_new) nodes.push_back(node);
  };
  add(first);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (looks(*nodes[i], add)) return true;
  }
  return false;
}

inline bool is_rounding(const Node& node) {
  return is_op(node, "DequantizeLinear") || is_op(node, "QuantizeLinear");
}

// Whether readers of the value, or of what is computed of its elements, are wanted.
template <typename Wanted>
bool leads_to(const Graph& graph, ValueId value, const Wanted& wanted, bool through_moves = false) {
  const std::vector<Use>& uses = graph.uses(value);
  return std::any_of(uses.begin(), uses.end(), [&](Use use) {
    return search(&graph.node(use.node), [&](const Node& node, const auto& add) {
      if (wanted(node)) return true;
      const Moves moves = op_facts(node).moves;
      const bool passes = is_elementwise(node) || is_rounding(node) || moves == Moves::kView ||
                          (through_moves && moves != Moves::kNo);
      for (const ValueId v : node.outputs) {
        if (!passes || !v.valid()) continue;
        for (const Use& next : graph.uses(v)) add(&graph.node(next.node));
      }
      return false;
    });
  });
}

}  // namespace xrt::openvino
