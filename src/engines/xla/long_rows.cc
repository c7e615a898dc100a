// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/long_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/work_scope.h"

namespace xrt::xla {
namespace {

// Each takes a processor some seconds.
constexpr int kMostNodes = 1000, kMostReductions = 100;
constexpr std::size_t kMostOperands = 1000, kMostResults = 256, kMostOutputs = 1000;

// Of compiling. What the function gives away is a kernel of its own.
constexpr double kSecondsPerNode = 0.002, kSecondsPerReduction = 0.01, kSecondsPerProduct = 0.02,
                 kSecondsPerOutput = 0.02;

// Nodes that end with a value and that XLA may compute together.
struct Row {
  int nodes = 0, reductions = 0;
};

// Whether it computes the op apart from what reads it.
bool ends_row(const Node& node) {
  constexpr std::string_view kOps[] = {
      "Attention", "Conv",   "ConvTranspose", "Einsum", "GRU",        "Gemm",
      "If",        "LSTM",   "Loop",          "MatMul", "RNN",        "Scan",
      "TopK",      "Unique", "MaxPool",       "LpPool", "AveragePool"};
  return node.domain.empty() &&
         std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// Alone, or as parts of what it computes.
bool reduces(const Node& node) {
  constexpr std::string_view kOps[] = {"ArgMax", "ArgMin", "LogSoftmax", "Softmax"};
  return node.domain.empty() &&
         (node.op.starts_with("Reduce") || node.op.ends_with("Normalization") ||
          std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps));
}

// By node, whether it makes an output behind the first ones.
std::vector<bool> makers_of_further_outputs(const Graph& graph) {
  std::vector<bool> found(graph.node_capacity(), false);
  const auto& outputs = graph.outputs();
  for (std::size_t i = kMostOutputs; i < outputs.size(); ++i) {
    const Value& value = graph.value(outputs[i]);
    if (value.origin == Origin::kNode) {
      found[static_cast<std::size_t>(value.producer.index)] = true;
    }
  }
  return found;
}

// Where time is limited.
void refuse_late(const Graph& graph, std::vector<Support>& answers) {
  const RunLimit* limit = WorkScope::time_limit();
  if (limit == nullptr) return;
  const std::vector<NodeId> nodes = graph.nodes();
  double seconds =
      kSecondsPerNode * double(nodes.size()) + kSecondsPerOutput * double(graph.outputs().size());
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (reduces(node)) seconds += kSecondsPerReduction;
    if (node.op == "MatMul" || node.op == "Gemm") seconds += kSecondsPerProduct;
  }
  if (limit->left() >= seconds) return;
  for (Support& answer : answers) {
    if (!answer) continue;
    answer = Support::no(fmt::format(
        "compiling {} nodes takes about {:.1f} s, in which nobody can end it; {:.1f} s are "
        "left",
        nodes.size(), seconds, limit->left()));
  }
}

}  // namespace

void cut_long_rows(const Graph& graph, std::vector<Support>& answers) {
  refuse_late(graph, answers);
  const std::vector<bool> makes_further_output = makers_of_further_outputs(graph);
  std::unordered_map<std::int32_t, Row> rows;  // by value
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    Support& answer = answers[static_cast<std::size_t>(id.index)];
    if (!answer || ends_row(node)) continue;
    if (node.inputs.size() > kMostOperands || node.outputs.size() > kMostResults) {
      answer =
          Support::no(fmt::format("XLA takes minutes to compile a node of {} operands and {} "
                                  "results",
                                  node.inputs.size(), node.outputs.size()));
      continue;
    }
    if (makes_further_output[static_cast<std::size_t>(id.index)]) {
      answer = Support::no(
          fmt::format("it makes one of {} results: XLA takes minutes to compile more than {}",
                      graph.outputs().size(), kMostOutputs));
      continue;
    }
    Row row;
    for (const ValueId input : graph.dependencies(id)) {
      const auto before = rows.find(input.index);
      if (before == rows.end()) continue;
      row.nodes = std::max(row.nodes, before->second.nodes);
      row.reductions = std::max(row.reductions, before->second.reductions);
    }
    ++row.nodes;
    if (reduces(node)) ++row.reductions;
    if (row.nodes > kMostNodes || row.reductions > kMostReductions) {
      answer = Support::no(fmt::format(
          "it is the last of {} nodes in a row, {} of them reductions: XLA takes time to "
          "compile more that grows with the square of their number",
          row.nodes, row.reductions));
      continue;
    }
    for (const ValueId output : node.outputs) {
      if (output.valid()) rows[output.index] = row;
    }
  }
}

}  // namespace xrt::xla
