// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/long_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

namespace xrt::xla {
namespace {

// Each takes a processor some seconds.
constexpr int kMostNodes = 1000, kMostReductions = 100;
constexpr std::size_t kMostOperands = 1000, kMostResults = 256;

// Between a millisecond for a product and twenty for an output of its own.
constexpr double kSecondsPerNode = 0.005;

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

}  // namespace

void cut_long_rows(const Graph& graph, std::vector<Support>& answers) {
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
    Row row;
    for (const ValueId input : graph.dependencies(id)) {
      const auto before = rows.find(input.index);
      if (before == rows.end()) continue;
      row.nodes = std::max(row.nodes, before->second.nodes);
      row.reductions = std::max(row.reductions, before->second.reductions);
    }
    ++row.nodes;
    if (node.domain.empty() && node.op.starts_with("Reduce")) ++row.reductions;
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

double seconds_to_compile(std::size_t nodes) { return kSecondsPerNode * double(nodes); }

}  // namespace xrt::xla
