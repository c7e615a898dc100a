// SPDX-License-Identifier: Apache-2.0
#include "ops/empties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "ops/deciding_operands.h"

namespace xrt {
namespace {

bool is_empty(const Graph& graph, ValueId v) {
  if (!v.valid() || !graph.type(v).is_tensor()) return false;
  const auto& shape = graph.type(v).shape;
  if (!shape) return false;
  return std::any_of(shape->begin(), shape->end(),
                     [](const Dim& dim) { return dim.is_known() && dim.value() == 0; });
}

// Lists that are part of what the node means: no axes, no sizes, no box.
bool is_list(const Graph& graph, const Node& node, std::size_t operand) {
  if (graph.constant(node.inputs[operand]) == nullptr) return false;
  if (node.op == "Resize" && operand == 1) return true;
  const auto deciding = deciding_operands(node);
  return std::any_of(deciding.begin(), deciding.end(), [&](const DecidingOperand& one) {
    return one.operand == operand && one.shapes;
  });
}

}  // namespace

std::optional<std::string> empties_refusal(const Graph& graph, const Node& node) {
  const bool is_standard = node.domain.empty();
  const auto told = [&](ValueId v) {
    return fmt::format("'{}' has no elements", graph.value(v).name);
  };
  for (const ValueId v : node.outputs) {
    if (is_empty(graph, v)) return told(v);
  }
  if (is_standard && (node.op == "Concat" || node.op == "Shape" || node.op == "Size")) return {};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (is_standard && node.op == "CastLike" && i == 1) continue;  // gives its type alone
    if (!is_empty(graph, node.inputs[i]) || is_list(graph, node, i)) continue;
    return told(node.inputs[i]);
  }
  return std::nullopt;
}

}  // namespace xrt
