// SPDX-License-Identifier: Apache-2.0
#include "ops/op_facts.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

namespace xrt {
namespace {

using enum CostClass;
using enum Moves;

// Sorted by domain and op.
constexpr auto kTable = std::to_array<OpFacts>({
    {.op = "Abs", .cheap = true, .keeps_half = true},
    {.op = "Add", .cheap = true, .keeps_half = true},
    {.op = "And", .cheap = true},
    {.op = "ArgMax", .jumps = true},
    {.op = "ArgMin", .jumps = true},
    {.op = "Attention", .cost = kAttention},
    {.op = "AveragePool", .cost = kPool},
    {.op = "BatchNormalization", .cheap = true},
    {.op = "BitShift", .cheap = true},
    {.op = "BitwiseAnd", .cheap = true},
    {.op = "BitwiseXor", .cheap = true},
    {.op = "Cast", .cheap = true, .jumps = true},
    {.op = "Ceil", .cheap = true, .jumps = true},
    {.op = "Celu", .cheap = true},
    {.op = "Clip", .cheap = true, .keeps_half = true},
    {.op = "Concat", .cheap = true, .keeps_half = true},
    {.op = "Conv", .cost = kWindows},
    {.op = "ConvInteger", .cost = kWindows, .on_bytes = true},
    {.op = "ConvTranspose", .cost = kWindows, .result = 0},
    {.op = "DepthToSpace", .moves = kPermute},
    {.op = "Div", .cheap = true, .keeps_half = true},
    {.op = "DynamicQuantizeLinear", .rounds = true},
    {.op = "Elu", .cheap = true},
    {.op = "Equal", .cheap = true, .jumps = true},
    {.op = "Erf", .cheap = true},
    {.op = "Exp", .cheap = true},
    {.op = "Expand", .moves = kRepeat, .cheap = true},
    {.op = "Flatten", .moves = kView, .cheap = true},
    {.op = "Floor", .cheap = true, .jumps = true},
    {.op = "GRU", .cost = kRecurrence},
    {.op = "Gather", .moves = kPick},
    {.op = "Gelu", .cheap = true},
    {.op = "Gemm", .cost = kProduct},
    {.op = "Greater", .cheap = true, .jumps = true},
    {.op = "GreaterOrEqual", .cheap = true, .jumps = true},
    {.op = "HardSigmoid", .cheap = true},
    {.op = "HardSwish", .cheap = true, .keeps_half = true},
    {.op = "Hardmax", .jumps = true},
    {.op = "Identity", .moves = kView, .cheap = true},
    {.op = "LSTM", .cost = kRecurrence},
    {.op = "LayerNormalization", .cheap = true},
    {.op = "LeakyRelu", .cheap = true, .keeps_half = true},
    {.op = "Less", .cheap = true, .jumps = true},
    {.op = "LessOrEqual", .cheap = true, .jumps = true},
    {.op = "Log", .cheap = true},
    {.op = "LpPool", .cost = kPool},
    {.op = "MatMul", .cost = kProduct},
    {.op = "MatMulInteger", .cost = kProduct, .on_bytes = true},
    {.op = "Max", .cheap = true, .keeps_half = true},
    {.op = "MaxPool", .cost = kPool, .moves = kSelect},
    {.op = "Min", .cheap = true, .keeps_half = true},
    {.op = "Mish", .cheap = true},
    {.op = "Mod", .jumps = true},
    {.op = "Mul", .cheap = true, .keeps_half = true},
    {.op = "Neg", .cheap = true, .keeps_half = true},
    {.op = "NonMaxSuppression", .jumps = true},
    {.op = "NonZero", .jumps = true},
    {.op = "Not", .cheap = true},
    {.op = "Or", .cheap = true},
    {.op = "PRelu", .cheap = true, .keeps_half = true},
    {.op = "Pad", .keeps_half = true},
    {.op = "Pow", .cheap = true},
    {.op = "QLinearConv", .cost = kWindows, .filters = 3, .on_bytes = true, .rounds = true},
    {.op = "QLinearMatMul", .cost = kProduct, .on_bytes = true, .rounds = true},
    {.op = "QuantizeLinear", .rounds = true},
    {.op = "RNN", .cost = kRecurrence},
    {.op = "Reciprocal", .cheap = true},
    {.op = "Relu", .cheap = true, .keeps_half = true},
    {.op = "Reshape", .moves = kView, .cheap = true},
    {.op = "Round", .jumps = true},
    {.op = "Selu", .cheap = true},
    {.op = "Sigmoid", .cheap = true},
    {.op = "Sign", .cheap = true, .jumps = true},
    {.op = "Slice", .moves = kSelect, .cheap = true},
    {.op = "Softmax", .cheap = true},
    {.op = "Softplus", .cheap = true},
    {.op = "Softsign", .cheap = true},
    {.op = "SpaceToDepth", .moves = kPermute},
    {.op = "Split", .moves = kSelect, .cheap = true},
    {.op = "Sqrt", .cheap = true},
    {.op = "Squeeze", .moves = kView, .cheap = true},
    {.op = "Sub", .cheap = true, .keeps_half = true},
    {.op = "Tanh", .cheap = true},
    {.op = "Tile", .moves = kRepeat},
    {.op = "TopK", .jumps = true},
    {.op = "Transpose", .moves = kPermute, .cheap = true},
    {.op = "Unique", .jumps = true},
    {.op = "Unsqueeze", .moves = kView, .cheap = true},
    {.op = "Where", .cheap = true, .keeps_half = true},
    {.domain = "xrt", .op = "ConvWeightGradient", .cost = kWindows, .filters = ~0, .result = 1},
    {.domain = "xrt",
     .op = "DynamicQuantizeLSTM",
     .cost = kRecurrence,
     .on_bytes = true,
     .rounds = true},
});

// In order.
constexpr auto kElementwise = std::to_array<std::string_view>({"Abs",
                                                               "Acos",
                                                               "Acosh",
                                                               "Add",
                                                               "And",
                                                               "Asin",
                                                               "Asinh",
                                                               "Atan",
                                                               "Atanh",
                                                               "BitShift",
                                                               "BitwiseAnd",
                                                               "BitwiseNot",
                                                               "BitwiseOr",
                                                               "BitwiseXor",
                                                               "Cast",
                                                               "Ceil",
                                                               "Celu",
                                                               "Clip",
                                                               "Cos",
                                                               "Cosh",
                                                               "Div",
                                                               "Elu",
                                                               "Equal",
                                                               "Erf",
                                                               "Exp",
                                                               "Floor",
                                                               "Gelu",
                                                               "Greater",
                                                               "GreaterOrEqual",
                                                               "HardSigmoid",
                                                               "HardSwish",
                                                               "Identity",
                                                               "IsInf",
                                                               "IsNaN",
                                                               "LeakyRelu",
                                                               "Less",
                                                               "LessOrEqual",
                                                               "Log",
                                                               "Max",
                                                               "Mean",
                                                               "Min",
                                                               "Mish",
                                                               "Mod",
                                                               "Mul",
                                                               "Neg",
                                                               "Not",
                                                               "Or",
                                                               "PRelu",
                                                               "Pow",
                                                               "Reciprocal",
                                                               "Relu",
                                                               "Round",
                                                               "Selu",
                                                               "Shrink",
                                                               "Sigmoid",
                                                               "Sign",
                                                               "Sin",
                                                               "Sinh",
                                                               "Softplus",
                                                               "Softsign",
                                                               "Sqrt",
                                                               "Sub",
                                                               "Sum",
                                                               "Swish",
                                                               "Tan",
                                                               "Tanh",
                                                               "ThresholdedRelu",
                                                               "Where",
                                                               "Xor"});
static_assert(std::is_sorted(kElementwise.begin(), kElementwise.end()));

constexpr auto key(const OpFacts& facts) { return std::tuple(facts.domain, facts.op); }
static_assert(std::is_sorted(kTable.begin(), kTable.end(),
                             [](const OpFacts& a, const OpFacts& b) { return key(a) < key(b); }));

}  // namespace

Narrowing narrowing(const Node& node) {
  const OpFacts& facts = op_facts(node);
  const bool is_product =
      facts.cost == kProduct || facts.cost == kWindows || facts.cost == kAttention;
  if (is_product && !facts.on_bytes) return Narrowing::kFactors;
  return facts.moves != kNo || facts.keeps_half ? Narrowing::kFollows : Narrowing::kNo;
}

const OpFacts& op_facts(const Node& node) {
  static constexpr OpFacts kUnknown{};
  const std::tuple wanted(std::string_view(node.domain), std::string_view(node.op));
  const auto* found =
      std::lower_bound(kTable.begin(), kTable.end(), wanted,
                       [](const OpFacts& facts, const auto& k) { return key(facts) < k; });
  return found != kTable.end() && key(*found) == wanted ? *found : kUnknown;
}

bool is_elementwise(const Node& node) {
  return node.domain.empty() &&
         std::binary_search(kElementwise.begin(), kElementwise.end(), node.op);
}

}  // namespace xrt
