// SPDX-License-Identifier: Apache-2.0
#include "autodiff/activity.h"

#include <algorithm>

#include "autodiff/rule.h"
#include "ir/pattern.h"

namespace xrt::autodiff {

bool is_real(const Type& type) {
  return type.is_tensor() && is_floating(type.dtype) && bit_width(type.dtype) >= 16;
}

std::optional<Type> gradient_type(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  if (is_real(type)) return type;
  const Node* node = producer(graph, value, "QuantizeLinear");
  if (node == nullptr || !is_real(graph.type(node->input(0)))) return std::nullopt;
  Type real = type;
  real.dtype = graph.type(node->input(0)).dtype;
  return real;
}

bool may_pass(const Graph& graph, const Node& node, std::size_t i) {
  const ValueId v = node.input(i);
  if (!v.valid()) return false;
  if (is_real(graph.type(v))) return true;
  return i == 0 && is_op(node, "DequantizeLinear") && gradient_type(graph, v).has_value();
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
      if (may_pass(graph, node, i) && (!def || def->passes(i))) leads[node.inputs[i].index] = true;
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
