// SPDX-License-Identifier: Apache-2.0
// A node all of whose inputs are constants is computed once, here, by the evaluator.
//
// Not folded: random ops, ops with sub-graphs, graph outputs (they stay computed), DequantizeLinear
// (engines want the quantised weights), and what would make the program large: an output that is
// larger than its inputs has at most 16 MB, and all of them together grow the program by at most
// 512 MB. A node that the evaluator refuses stays: it fails, if at all, when it is run.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "ir/rewrite.h"
#include "ops/schema.h"
#include "passes/passes.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kMaxGrownBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxGrowth = std::size_t{512} << 20;
// Inputs of ops whose output's size depends on the data (NonZero, Unique), and is bounded by it.
constexpr std::size_t kMaxInputOfUnknown = std::size_t{1} << 20;

// Bytes of all outputs, nothing where they are not known.
std::optional<std::size_t> output_bytes(const Graph& graph, const Node& node) {
  std::size_t total = 0;
  for (const ValueId v : node.outputs) {
    if (!v.valid()) continue;
    const Type& type = graph.type(v);
    const auto dims = type.static_dims();
    if (!type.is_tensor() || !dims) return std::nullopt;
    total += byte_count(type.dtype, *dims);
  }
  return total;
}

// `growth`: bytes the program has grown by, and would.
bool worth_folding(const Graph& graph, const Node& node, std::size_t input_bytes,
                   std::size_t* growth) {
  const auto bytes = output_bytes(graph, node);
  if (!bytes) return input_bytes <= kMaxInputOfUnknown;
  if (*bytes <= input_bytes) return true;
  const std::size_t more = *bytes - input_bytes;
  if (*bytes > kMaxGrownBytes || *growth + more > kMaxGrowth) return false;
  *growth += more;
  return true;
}

bool foldable(const Graph& graph, const Node& node, std::size_t* growth) {
  if (node.outputs.empty() || !Graph::subgraphs(node).empty() || !is_deterministic(node)) {
    return false;
  }
  if (node.domain.empty() && node.op == "DequantizeLinear") return false;
  std::size_t input_bytes = 0;
  for (const ValueId v : node.inputs) {
    if (!v.valid()) continue;
    const Tensor* constant = graph.constant(v);
    if (constant == nullptr) return false;
    input_bytes += constant->bytes();
  }
  for (const ValueId v : node.outputs) {
    if (v.valid() && (graph.is_output(v) || !graph.type(v).is_tensor())) return false;
  }
  return worth_folding(graph, node, input_bytes, growth);
}

Graph one_node_graph(const Graph& graph, const Node& node) {
  Graph single(node.name);
  single.opsets() = graph.opsets();
  std::vector<ValueId> inputs;
  for (const ValueId v : node.inputs) {
    inputs.push_back(v.valid() ? single.add_constant(graph.value(v).name, *graph.constant(v))
                               : ValueId{});
  }
  std::vector<std::string> names;
  for (const ValueId v : node.outputs) {
    names.push_back(v.valid() ? graph.value(v).name + "_folded" : std::string());
  }
  const NodeId id = single.add_node(node.domain, node.op, inputs, names, node.attributes, node.name,
                                    /*omit_empty=*/true);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const ValueId v = single.node(id).outputs[i];
    single.set_type(v, graph.type(node.outputs[i]));
    single.add_output(v);
  }
  return single;
}

bool fold(Graph& graph, NodeId id, const Evaluator& evaluate) {
  std::vector<Data> results;
  try {
    results = evaluate(one_node_graph(graph, graph.node(id)));
  } catch (const Error& e) {
    log_debug("not folded: " + graph.node(id).name + ": " + e.what());
    return false;
  }
  const bool tensors = std::all_of(results.begin(), results.end(),
                                   [](const Data& data) { return data.is_tensor(); });
  const std::vector<ValueId> outputs = graph.node(id).outputs;
  const auto wanted = static_cast<std::size_t>(
      std::count_if(outputs.begin(), outputs.end(), [](ValueId v) { return v.valid(); }));
  if (!tensors || results.size() != wanted) return false;
  std::size_t next = 0;
  for (const ValueId v : outputs) {
    if (v.valid()) graph.set_constant(v, results[next++].tensor());
  }
  graph.remove_node(id);
  return true;
}

bool fold_graph(Graph& graph, const Evaluator& evaluate, std::size_t* growth) {
  bool changed = false;
  for (const NodeId id : graph.topological_order()) {
    if (foldable(graph, graph.node(id), growth)) {
      changed = fold(graph, id, evaluate) || changed;
    } else {
      changed = edit_subgraphs(graph, id,
                               [&](Graph& body) { return fold_graph(body, evaluate, growth); }) ||
                changed;
    }
  }
  return changed;
}

}  // namespace

bool fold_constants(Graph& graph, const Evaluator& evaluate) {
  std::size_t growth = 0;
  return fold_graph(graph, evaluate, &growth);
}

}  // namespace xrt
