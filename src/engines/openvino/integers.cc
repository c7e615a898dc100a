// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/integers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "ir/pattern.h"
#include "ops/op_facts.h"

namespace xrt::openvino {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kFloat32Exact = 1 << 24;

template <std::size_t N>
bool is_one_of(std::string_view op, const std::string_view (&ops)[N]) {
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

// The largest magnitude among integers that are constant operands; 0 where there are none.
std::int64_t largest_constant(const Graph& graph, const Node& node) {
  std::int64_t largest = 0;
  for (const ValueId id : node.inputs) {
    const Tensor* constant = id.valid() ? graph.constant(id) : nullptr;
    if (constant == nullptr) continue;
    for (const std::int64_t value : constant->to_int64()) {
      largest = std::max(largest, value < 0 ? -(value + 1) : value);
    }
  }
  return largest;
}

// What has to hold for an operand so that `most` holds for the results: of nodes whose elements are
// those of their operands, or sums and products of these.
std::int64_t bound_of_operand(const Graph& graph, const Node& node, std::size_t operand,
                              std::int64_t most) {
  if (!node.domain.empty()) return kInt32Max;
  const DType dtype = graph.type(node.inputs[operand]).dtype;
  if (!is_integer(dtype)) return kInt32Max;
  constexpr std::string_view kOfAny[] = {"Abs",    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Clip",
                                         "Concat", "Max",        "Min",       "Neg",        "Relu"};
  const bool moves = operand == 0 && op_facts(node).moves != Moves::kNo;
  const bool chooses = node.op == "Where" && operand > 0;
  const bool casts = node.op == "Cast" && is_integer(graph.type(node.outputs[0]).dtype);
  const bool is_of_any =
      std::find(std::begin(kOfAny), std::end(kOfAny), node.op) != std::end(kOfAny);
  if (moves || chooses || casts || is_of_any) return most;
  // Sums and products of 32 bits begin anew where they do not fit, as the standard has it.
  if (most == kInt32Max && bit_width(dtype) == 32) return kInt32Max;
  if (node.op == "Add" || node.op == "Sub") return most / 2;
  if (node.op == "Mul") return most / std::max<std::int64_t>(largest_constant(graph, node), 1);
  return kInt32Max;
}

}  // namespace

std::int64_t integer_bound(const Graph& graph, const Node& node) {
  constexpr std::string_view kInFloat[] = {
      "Div",       "Equal",    "GreaterOrEqual",  "Greater",    "LessOrEqual", "Less",
      "Mod",       "Pow",      "ReduceMax",       "ReduceMean", "ReduceMin",   "ReduceProd",
      "ReduceSum", "ReduceL1", "ReduceSumSquare", "Sum",        "TopK",        "ArgMax",
      "ArgMin",    "Clip",     "CumSum",          "Relu",       "Trilu",       "ReverseSequence",
      "PRelu"};
  if (!node.input(0).valid()) return kInt32Max;
  const DType dtype = graph.type(node.inputs[0]).dtype;
  if (!is_integer(dtype) || bit_width(dtype) < 32) return kInt32Max;
  // A sum or a difference of two is an int32, too.
  if (node.op == "Range" || node.op == "Add" || node.op == "Sub") return kInt32Max / 2;
  // The negative of the least one is none.
  if (node.op == "Neg" || node.op == "Abs") return kInt32Max - 1;
  // So is a product by a constant.
  if (node.op == "Mul" && bit_width(dtype) == 64) {
    return kInt32Max / std::max<std::int64_t>(largest_constant(graph, node), 1);
  }
  const bool in_float =
      std::find(std::begin(kInFloat), std::end(kInFloat), node.op) != std::end(kInFloat);
  return in_float ? kFloat32Exact : kInt32Max;
}

namespace {

// Where `most` has to hold for what the graph gives.
std::vector<std::int64_t> bounds_for(const Graph& graph, std::int64_t most_given) {
  const auto at = [](ValueId v) { return static_cast<std::size_t>(v.index); };
  std::vector<std::int64_t> bounds(graph.value_capacity(), kInt32Max);
  for (const ValueId v : graph.outputs()) bounds[at(v)] = most_given;
  std::vector<NodeId> nodes = graph.topological_order();
  std::reverse(nodes.begin(), nodes.end());
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    std::int64_t own = integer_bound(graph, node);
    std::int64_t most = kInt32Max;
    for (const ValueId v : node.outputs) {
      if (v.valid()) most = std::min(most, bounds[at(v)]);
    }
    for (const Graph* body : Graph::subgraphs(node)) {
      const std::vector<std::int64_t> inside = bounds_for(*body, most);
      for (const Capture& c : body->captures()) {
        bounds[at(c.outer)] = std::min(bounds[at(c.outer)], inside[at(c.inner)]);
      }
      // Which operand a body's own inputs come from is the op's matter.
      for (const ValueId v : body->inputs()) own = std::min(own, inside[at(v)]);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!v.valid()) continue;
      bounds[at(v)] = std::min({bounds[at(v)], own, bound_of_operand(graph, node, i, most)});
    }
  }
  return bounds;
}

}  // namespace

std::vector<std::int64_t> integer_bounds(const Graph& graph) {
  return bounds_for(graph, kInt32Max);
}

namespace {

// What ConstantOfShape fills its result with, where it may be too large for somebody.
const Tensor* wide_filling(const Node& node) {
  const Tensor* filling = is_op(node, "ConstantOfShape") ? node.attr_tensor("value") : nullptr;
  const bool is_wide =
      filling != nullptr && is_integer(filling->dtype()) && bit_width(filling->dtype()) >= 32;
  return is_wide ? filling : nullptr;
}

}  // namespace

std::optional<std::string> beyond(const Tensor& integers, std::int64_t bound) {
  const bool is_unsigned = integers.dtype() == DType::kUInt64;  // of which large ones look negative
  for (const std::int64_t value : integers.to_int64()) {
    if (value <= bound && value >= (is_unsigned ? 0 : -bound - 1)) continue;
    return is_unsigned ? std::to_string(static_cast<std::uint64_t>(value)) : std::to_string(value);
  }
  return std::nullopt;
}

std::optional<std::string> byte_refusal(const Graph& graph, const Node& node) {
  constexpr std::string_view kSaturating[] = {"Abs", "Div", "Neg"};
  if (!node.domain.empty() || !is_one_of(node.op, kSaturating)) return std::nullopt;
  if (graph.type(node.input(0)).dtype != DType::kInt8) return std::nullopt;
  if (node.op == "Div") {
    const Tensor* by = graph.constant(node.input(1));
    const std::vector<std::int64_t> values = by != nullptr ? by->to_int64() : std::vector{-1L};
    if (std::find(values.begin(), values.end(), -1) == values.end()) return std::nullopt;
  }
  return "the CPU plugin gives 127 for the negative of the least int8, not that number again";
}

GrownIntegers::GrownIntegers(const Graph& graph)
    : graph_(graph), given_(graph.value_capacity()), grown_(graph.value_capacity()) {
  constexpr std::string_view kGrowing[] = {"BitShift", "CumProd", "Mul", "Pow", "ReduceProd"};
  const auto at = [](ValueId v) { return static_cast<std::size_t>(v.index); };
  const auto is_given = [&](ValueId v) {
    return v.valid() && graph.constant(v) == nullptr &&
           (graph.value(v).origin != Origin::kNode || given_[at(v)]);
  };
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (wide_filling(node) != nullptr && bounds_.empty()) bounds_ = integer_bounds(graph);
    // Of the sizes of tensors products stay small.
    if (!node.domain.empty() || node.op == "Shape" || node.op == "Size") continue;
    const bool given = std::any_of(node.inputs.begin(), node.inputs.end(), is_given);
    const bool grown = (given && is_one_of(node.op, kGrowing)) ||
                       std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId v) { return v.valid() && grown_[at(v)]; });
    for (const ValueId v : node.outputs) {
      if (!v.valid()) continue;
      const DType dtype = graph.type(v).dtype;
      given_[at(v)] = given;
      grown_[at(v)] = grown && is_integer(dtype) && bit_width(dtype) >= 32;
    }
  }
}

std::optional<std::string> GrownIntegers::cast_refusal(const Node& node) const {
  const ValueId from = node.inputs[0];
  const DType to = graph_.type(node.outputs[0]).dtype;
  const bool is_given =
      graph_.value(from).origin != Origin::kNode || given_[static_cast<std::size_t>(from.index)];
  if (!is_floating(graph_.type(from).dtype) || !is_integer(to) || bit_width(to) < 64 || !is_given) {
    return std::nullopt;
  }
  return "the CPU plugin has integers of 32 bits, in which '" + graph_.value(from).name +
         "' may have no room";
}

std::optional<std::string> GrownIntegers::refusal(const Node& node) const {
  if (const Tensor* filling = wide_filling(node); filling != nullptr && node.output(0).valid()) {
    const auto value = beyond(*filling, bounds_[static_cast<std::size_t>(node.outputs[0].index)]);
    if (!value) return std::nullopt;
    return "it fills its result with " + *value +
           ", more than the CPU plugin computes exactly there";
  }
  if (!node.domain.empty()) return std::nullopt;
  if (node.op == "Cast" || node.op == "CastLike") return cast_refusal(node);
  if (integer_bound(graph_, node) != kFloat32Exact) return std::nullopt;
  for (const ValueId v : node.inputs) {
    if (!v.valid() || !grown_[static_cast<std::size_t>(v.index)]) continue;
    return "'" + graph_.value(v).name +
           "' is made of products of integers, and the CPU plugin computes this node in float32";
  }
  return std::nullopt;
}

}  // namespace xrt::openvino
