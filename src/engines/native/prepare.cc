// SPDX-License-Identifier: Apache-2.0
#include "engines/native/prepare.h"

#include <algorithm>

#include "engines/native/compressed/kernels.h"
#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/updates.h"
#include "ir/pattern.h"
#include "ops/quantized.h"
#include "ops/schema.h"
#include "ops/sizes/size_rules.h"

namespace xrt::native {

namespace {

// Bodies of bodies go no deeper; the standard's own need three levels.
constexpr int kMaxExpansion = 8;

Support supports_all_of(const Graph& body, const KernelRegistry& registry, int depth);

Support supports_at_depth(const Graph& graph, NodeId id, const KernelRegistry& registry,
                          int depth) {
  std::string reason;
  if (registry.find(NodeView(graph, id), &reason) == nullptr) {
    if (depth >= kMaxExpansion || !has_function_body(graph, id)) return Support::no(reason);
    return supports_all_of(function_body(graph, id), registry, depth + 1);
  }
  for (const Graph* body : Graph::subgraphs(graph.node(id))) {
    const Support support = supports_all_of(*body, registry, depth);
    if (!support) return support;
  }
  return Support::yes();
}

Support supports_all_of(const Graph& body, const KernelRegistry& registry, int depth) {
  for (const NodeId id : body.nodes()) {
    const Support support = supports_at_depth(body, id, registry, depth);
    if (!support) {
      return Support::no("in its body, " + body.node(id).qualified_op() + ": " + support.reason());
    }
  }
  return Support::yes();
}

// Quantised weights and biases become the float32 numbers that they stand for, once and not in
// every run: kernels pack them as they pack others.
void dequantize_constants(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, "DequantizeLinear")) continue;
    const ValueId old = node.output(0);
    if (graph.is_output(old)) continue;
    Tensor values = dequantized(graph, node);
    if (!values.defined()) continue;
    const ValueId made = graph.add_constant(graph.value(old).name + "/float", std::move(values));
    graph.replace_uses(old, made);
    graph.remove_node(id);
  }
}

// Whether the sizes of some node's operands disagree. Passes take them to agree, and read as many
// elements of a constant as its node has a use for.
bool has_wrong_sizes(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes(), [&](NodeId id) { return sizes_refusal(graph, graph.node(id)).has_value(); });
}

}  // namespace

std::vector<std::string> prepare_graph(Graph& graph, const KernelRegistry& registry,
                                       const CompileOptions&,
                                       std::span<const InputOutputAlias> aliases) {
  expand_functions(
      graph, [&](const Graph& g, NodeId id) { return registry.find(NodeView(g, id)) == nullptr; });
  fuse_updates(graph, aliases);
  if (has_wrong_sizes(graph)) return {};  // a kernel tells which
  std::vector<std::string> remarks = dnn::fuse_int8(graph);
  for (std::string& remark : fuse_compressed(graph)) remarks.push_back(std::move(remark));
  dequantize_constants(graph);
  dnn::widen_halves(graph);
  dnn::optimize(graph);
  return remarks;
}

Support supports_node(const Graph& graph, NodeId id, const KernelRegistry& registry) {
  return supports_at_depth(graph, id, registry, 0);
}

}  // namespace xrt::native
