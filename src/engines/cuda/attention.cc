// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/attention.h"

#include <optional>
#include <vector>

#include "engines/cuda/plan.h"

namespace xrt::cuda {
namespace {

bool is(const xrt::Graph& graph, NodeId id, std::string_view op) {
  return id.valid() && graph.node(id).domain.empty() && graph.node(id).op == op;
}

DType dtype_of(const xrt::Graph& graph, ValueId value) { return graph.type(value).dtype; }

std::optional<NodeId> only_reader(const xrt::Graph& graph, ValueId value) {
  const std::vector<Use>& uses = graph.uses(value);
  if (graph.is_output(value) || uses.size() != 1) return std::nullopt;
  return uses.front().node;
}

// The value of half precision that a cast of a float32 value reads; none where it is no such cast.
std::optional<ValueId> before_cast(const xrt::Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!is(graph, producer, "Cast")) return std::nullopt;
  const ValueId source = graph.node(producer).inputs[0];
  if (!is_half(dtype_of(graph, source)) || dtype_of(graph, value) != DType::kFloat32) {
    return std::nullopt;
  }
  return source;
}

}  // namespace

void narrow_attention(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !is(graph, id, "MatMul")) continue;
    const Node& product = graph.node(id);
    const ValueId weights = product.inputs[0];
    const auto values = before_cast(graph, product.inputs[1]);
    if (!values || !is(graph, graph.value(weights).producer, "Softmax") ||
        only_reader(graph, weights) != id) {
      continue;
    }
    const auto reader = only_reader(graph, product.outputs[0]);
    const DType half = dtype_of(graph, *values);
    if (!reader || !is(graph, *reader, "Cast")) continue;
    const ValueId result = graph.node(*reader).outputs[0];
    if (dtype_of(graph, result) != half) continue;
    const Type type = graph.type(result);
    Type narrow = graph.type(weights);
    narrow.dtype = half;
    const ValueId rounded =
        graph.add_op("Cast", {weights}, {{"to", static_cast<std::int64_t>(half)}});
    graph.set_type(rounded, narrow);
    const ValueId made = graph.add_op("MatMul", {rounded, *values});
    graph.set_type(made, type);
    graph.replace_uses(result, made);
    graph.remove_node(*reader);
    graph.remove_node(id);
  }
}

}  // namespace xrt::cuda
