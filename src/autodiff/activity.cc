// SPDX-License-Identifier: Apache-2.0
#include "autodiff/activity.h"

#include <algorithm>

#include "autodiff/rule.h"

namespace xrt::autodiff {

bool is_real(const Type& type) {
  return type.is_tensor() && is_floating(type.dtype) && bit_width(type.dtype) >= 16;
}

std::vector<bool> leading_to(const Graph& graph, ValueId loss) {
  std::vector<bool> leads(graph.value_capacity());
  leads[loss.index] = true;
  std::vector<NodeId> order = graph.topological_order();
  std::reverse(order.begin(), order.end());
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const bool any = std::any_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId v) { return v.valid() && leads[v.index]; });
    if (!any) continue;
    const std::optional<RuleDef> def = rule_for(graph, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v.valid() && is_real(graph.type(v)) && (!def || def->passes(i))) {
        leads[v.index] = true;
      }
    }
    if (!def || def->kind == GradientKind::kZero) continue;
    for (const Graph* body : Graph::subgraphs(node)) {
      for (const Capture& c : body->captures()) {
        if (is_real(graph.type(c.outer))) leads[c.outer.index] = true;
      }
    }
  }
  return leads;
}

}  // namespace xrt::autodiff
