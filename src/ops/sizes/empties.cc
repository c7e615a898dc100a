// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/empties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ops/sizes/deciding_operands.h"

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

// Whether the negative numbers of a Pad leave nothing of an axis, whatever the others add.
bool cuts_all(const Graph& graph, const Node& node) {
  const Tensor* pads = node.input(1).valid() ? graph.constant(node.inputs[1]) : nullptr;
  const auto& shape = graph.type(node.inputs[0]).shape;
  if (pads == nullptr || !shape || pads->dtype() != DType::kInt64) return false;
  std::vector<std::int64_t> axes(shape->size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.input(3).valid()) {
    if (graph.constant(node.inputs[3]) == nullptr) return false;
    axes = graph.constant(node.inputs[3])->to_int64();
  }
  const std::vector<std::int64_t> values = pads->to_int64();
  if (values.size() != 2 * axes.size()) return false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<std::size_t>(
        axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(shape->size()) : axes[i]);
    if (at >= shape->size() || !(*shape)[at].is_known()) continue;
    const double cut = -static_cast<double>(std::min<std::int64_t>(values[i], 0)) -
                       static_cast<double>(std::min<std::int64_t>(values[i + axes.size()], 0));
    if (cut > 0 && cut >= static_cast<double>((*shape)[at].value())) return true;
  }
  return false;
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
  if (is_standard && node.op == "Pad" && cuts_all(graph, node)) {
    return fmt::format("what is cut from '{}' leaves no elements",
                       graph.value(node.inputs[0]).name);
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
