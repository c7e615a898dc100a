// SPDX-License-Identifier: Apache-2.0
#include "ir/pattern.h"

#include <vector>

namespace xrt {

NodeId producer_id(const Graph& graph, ValueId value) {
  if (!value.valid()) return {};
  const Value& v = graph.value(value);
  return v.origin == Origin::kNode ? v.producer : NodeId{};
}

const Node* producer(const Graph& graph, ValueId value) {
  const NodeId id = producer_id(graph, value);
  return id.valid() ? &graph.node(id) : nullptr;
}

const Node* producer(const Graph& graph, ValueId value, std::string_view op) {
  const Node* node = producer(graph, value);
  return node != nullptr && is_op(*node, op) ? node : nullptr;
}

std::optional<Use> sole_use(const Graph& graph, ValueId value) {
  if (!value.valid() || graph.is_output(value)) return std::nullopt;
  const std::vector<Use>& uses = graph.uses(value);
  if (uses.size() != 1 || uses[0].index < 0) return std::nullopt;
  return uses[0];
}

std::optional<float> scalar_constant(const Graph& graph, ValueId value) {
  const Tensor* tensor = value.valid() ? graph.constant(value) : nullptr;
  if (tensor == nullptr || tensor->dtype() != DType::kFloat32 || tensor->count() != 1) {
    return std::nullopt;
  }
  return tensor->data<float>()[0];
}

bool same_shape(const Type& a, const Type& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return false;
  for (std::size_t i = 0; i < a.rank(); ++i) {
    const Dim& x = (*a.shape)[i];
    if (!x.is_known() && !x.is_symbol()) return false;
    if (!(x == (*b.shape)[i])) return false;
  }
  return true;
}

ValueId other_input(const Node& node, ValueId value) {
  return node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
}

void remove_unused(Graph& graph, ValueId value) {
  const NodeId id = producer_id(graph, value);
  if (!id.valid()) return;
  for (const ValueId out : graph.node(id).outputs) {
    if (out.valid() && (graph.is_output(out) || !graph.uses(out).empty())) return;
  }
  const std::vector<ValueId> inputs = graph.dependencies(id);
  graph.remove_node(id);
  for (const ValueId input : inputs) {
    if (graph.alive(input) && graph.uses(input).empty() && !graph.is_output(input)) {
      remove_unused(graph, input);
    }
  }
}

void substitute(Graph& graph, ValueId from, ValueId to) {
  graph.replace_uses(from, to);
  remove_unused(graph, from);
}

}  // namespace xrt
