// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/fuse/pattern.h"

#include <cmath>

namespace xrt::native::dnn {

std::optional<float> scalar_constant(const Graph& graph, ValueId value) {
  if (!value.valid()) return std::nullopt;
  const Tensor* tensor = graph.constant(value);
  if (tensor == nullptr || tensor->dtype() != DType::kFloat32 || tensor->count() != 1) {
    return std::nullopt;
  }
  return tensor->data<float>()[0];
}

bool is_scalar_near(const Graph& graph, ValueId value, float wanted) {
  const std::optional<float> found = scalar_constant(graph, value);
  return found && std::abs(*found - wanted) <= 1e-5F * std::max(1.0F, std::abs(wanted));
}

NodeId producer_id(const Graph& graph, ValueId value) {
  if (!value.valid()) return {};
  const Value& v = graph.value(value);
  return v.origin == Origin::kNode ? v.producer : NodeId{};
}

const Node* producer(const Graph& graph, ValueId value, std::string_view op) {
  const NodeId id = producer_id(graph, value);
  if (!id.valid()) return nullptr;
  const Node& node = graph.node(id);
  return node.domain.empty() && node.op == op ? &node : nullptr;
}

std::optional<Use> sole_use(const Graph& graph, ValueId value) {
  if (graph.is_output(value)) return std::nullopt;
  const std::vector<Use>& uses = graph.uses(value);
  if (uses.size() != 1 || uses[0].index < 0) return std::nullopt;
  return uses[0];
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

void replace_value(Graph& graph, ValueId from, ValueId to) {
  graph.replace_uses(from, to);
  remove_unused(graph, from);
}

ValueId other_input(const Node& node, ValueId value) {
  return node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
}

}  // namespace xrt::native::dnn
