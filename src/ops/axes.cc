// SPDX-License-Identifier: Apache-2.0
#include "ops/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "xrt/error.h"

namespace xrt {
namespace {

// Sorted by op.
constexpr auto kFacts = std::to_array<AxisFact>({
    {.op = "ArgMax", .attribute = "axis"},
    {.op = "ArgMin", .attribute = "axis"},
    {.op = "CenterCropPad", .attribute = "axes"},
    {.op = "Compress", .attribute = "axis"},
    {.op = "Concat", .attribute = "axis"},
    {.op = "CumProd", .operand = 1},
    {.op = "CumSum", .operand = 1},
    {.op = "DFT", .operand = 2},
    {.op = "DequantizeLinear", .attribute = "axis", .ignored = true},
    {.op = "Flatten", .attribute = "axis", .one_past = true},
    {.op = "Gather", .attribute = "axis"},
    {.op = "GatherElements", .attribute = "axis"},
    {.op = "Hardmax", .attribute = "axis"},
    {.op = "LayerNormalization", .attribute = "axis"},
    {.op = "LogSoftmax", .attribute = "axis"},
    {.op = "LpNormalization", .attribute = "axis"},
    {.op = "MeanVarianceNormalization", .attribute = "axes"},
    {.op = "OneHot", .attribute = "axis", .more = 1},
    {.op = "Pad", .operand = 3},
    {.op = "QuantizeLinear", .attribute = "axis", .ignored = true},
    {.op = "RMSNormalization", .attribute = "axis"},
    {.op = "ReduceL1", .operand = 1},
    {.op = "ReduceL2", .operand = 1},
    {.op = "ReduceLogSum", .operand = 1},
    {.op = "ReduceLogSumExp", .operand = 1},
    {.op = "ReduceMax", .operand = 1},
    {.op = "ReduceMean", .operand = 1},
    {.op = "ReduceMin", .operand = 1},
    {.op = "ReduceProd", .operand = 1},
    {.op = "ReduceSum", .operand = 1},
    {.op = "ReduceSumSquare", .operand = 1},
    {.op = "Resize", .attribute = "axes"},
    {.op = "ReverseSequence", .attribute = "batch_axis"},
    {.op = "ReverseSequence", .attribute = "time_axis"},
    {.op = "ScatterElements", .attribute = "axis"},
    {.op = "Slice", .operand = 3},
    {.op = "Softmax", .attribute = "axis"},
    {.op = "Split", .attribute = "axis"},
    {.op = "SplitToSequence", .attribute = "axis"},
    {.op = "Squeeze", .operand = 1},
    {.op = "TensorScatter", .attribute = "axis"},
    {.op = "TopK", .attribute = "axis"},
    {.op = "Transpose", .attribute = "perm"},
    {.op = "Unique", .attribute = "axis"},
    {.op = "Unsqueeze", .operand = 1, .counted = -1},
});
static_assert(std::is_sorted(kFacts.begin(), kFacts.end(),
                             [](const AxisFact& a, const AxisFact& b) { return a.op < b.op; }));

std::vector<std::int64_t> named_axes(const Graph& graph, const Node& node, const AxisFact& fact) {
  if (fact.attribute.empty()) {
    const ValueId operand = node.input(static_cast<std::size_t>(fact.operand));
    const Tensor* tensor = operand.valid() ? graph.constant(operand) : nullptr;
    const bool integer =
        tensor != nullptr && (tensor->dtype() == DType::kInt64 || tensor->dtype() == DType::kInt32);
    return integer ? tensor->to_int64() : std::vector<std::int64_t>();
  }
  const auto found = node.attributes.find(fact.attribute);
  if (found == node.attributes.end()) return {};
  if (std::holds_alternative<std::int64_t>(found->second)) {
    return {std::get<std::int64_t>(found->second)};
  }
  return node.attr_ints(fact.attribute);  // its error for another kind
}

}  // namespace

std::span<const AxisFact> axis_facts(const Node& node) {
  if (!node.domain.empty()) return {};
  struct ByOp {
    bool operator()(const AxisFact& fact, std::string_view op) const { return fact.op < op; }
    bool operator()(std::string_view op, const AxisFact& fact) const { return op < fact.op; }
  };
  const auto [first, last] =
      std::equal_range(kFacts.begin(), kFacts.end(), std::string_view(node.op), ByOp{});
  return {first, last};
}

std::optional<std::int64_t> counted_axes(const Graph& graph, const Node& node,
                                         const AxisFact& fact) {
  const ValueId value =
      fact.counted < 0 ? node.output(0) : node.input(static_cast<std::size_t>(fact.counted));
  if (!value.valid() || !graph.type(value).has_rank()) return std::nullopt;
  return static_cast<std::int64_t>(graph.type(value).rank()) + fact.more;
}

void check_axes(const Graph& graph, const Node& node) {
  for (const AxisFact& fact : axis_facts(node)) {
    // Only the rule of the op can tell the rank of its output.
    const auto count = fact.counted < 0 ? std::nullopt : counted_axes(graph, node, fact);
    if (!count || fact.ignored) continue;
    const std::int64_t last = *count - (fact.one_past ? 0 : 1);
    for (const std::int64_t axis : named_axes(graph, node, fact)) {
      if (axis >= -*count && axis <= last) continue;
      const std::string what = fact.attribute.empty() ? fmt::format("input {}", fact.operand)
                                                      : fmt::format("'{}'", fact.attribute);
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("{} names axis {}, but there are {}: it must be in [{}, {}]", what,
                              axis, *count, -*count, last));
    }
  }
}

}  // namespace xrt
