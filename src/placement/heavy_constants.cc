// SPDX-License-Identifier: Apache-2.0
#include "placement/heavy_constants.h"

#include <algorithm>
#include <cstddef>

#include "ops/schema.h"
#include "xrt/tensor.h"

namespace xrt {
namespace {

// Engines may fold what is smaller.
constexpr std::size_t kLight = std::size_t{64} << 10;

bool is_heavy(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
    if (!v.valid() || !graph.type(v).is_tensor()) return false;
    const Type& type = graph.type(v);
    return !type.is_static() || type.dtype == DType::kUndefined ||
           byte_count(type.dtype, *type.static_dims()) > kLight;
  });
}

}  // namespace

std::vector<NodeId> heavy_constants(const Graph& graph) {
  std::vector<NodeId> heavy;
  std::vector<bool> is_constant(graph.value_capacity());
  const auto known = [&](ValueId v) {
    return !v.valid() || graph.constant(v) != nullptr || is_constant[v.index];
  };
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const std::vector<const Graph*> bodies = Graph::subgraphs(node);
    if (std::any_of(bodies.begin(), bodies.end(),
                    [](const Graph* body) { return !heavy_constants(*body).empty(); })) {
      heavy.push_back(id);
      continue;
    }
    // Quantised weights are read as they are.
    const bool computed = bodies.empty() && is_deterministic(node) &&
                          !(node.domain.empty() && node.op == "DequantizeLinear") &&
                          std::all_of(node.inputs.begin(), node.inputs.end(), known);
    if (!computed) continue;
    for (const ValueId v : node.outputs) {
      if (v.valid()) is_constant[v.index] = true;
    }
    if (is_heavy(graph, node)) heavy.push_back(id);
  }
  return heavy;
}

Graph without_nodes(const Graph& graph, const std::vector<NodeId>& nodes) {
  Graph rest(graph);
  for (const NodeId id : nodes) {
    const std::vector<ValueId> outputs = rest.node(id).outputs;
    for (const ValueId v : outputs) {
      if (!v.valid()) continue;
      rest.replace_uses(v, rest.add_input(rest.value(v).name, rest.type(v)));
    }
    rest.remove_node(id);
  }
  return rest;
}

}  // namespace xrt
