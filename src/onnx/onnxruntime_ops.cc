// SPDX-License-Identifier: Apache-2.0
#include "onnx/onnxruntime_ops.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/upgrade.h"
#include "onnx/upgrade_draft.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using upgrade::name_for;
using upgrade::take;

constexpr std::string_view kDomain = "com.microsoft";

// Builds what stands in front of a draft.
class Translation {
 public:
  Translation(Graph& graph, NodeDraft& draft) : graph_(graph), draft_(draft) {}

  // Input `i`, which has to be there.
  ValueId need(std::size_t i) const {
    const ValueId value = input(i);
    if (!value.valid()) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("its input {} is missing", i));
    }
    return value;
  }
  ValueId input(std::size_t i) const {
    return i < draft_.inputs.size() ? draft_.inputs[i] : ValueId{};
  }

  // An op as opset `version` defined it.
  ValueId add(std::string op, std::vector<ValueId> inputs, Attributes attributes = {},
              std::int64_t version = kOnnxOpset) {
    while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
    const std::string name = name_for(draft_, fmt::format("{}{}", op, added_++));
    NodeDraft node{name, "", std::move(op), std::move(inputs), {name}, std::move(attributes)};
    if (version != kOnnxOpset) upgrade_node(graph_, node, version);
    const NodeId id = graph_.add_node("", node.op, std::move(node.inputs), node.outputs,
                                      std::move(node.attributes), node.name, /*omit_empty=*/true);
    return graph_.node(id).outputs.at(0);
  }

  // The numbers that the input `x` stands for, whose scale and zero point are the next two.
  ValueId dequantised(std::size_t x) { return dequantised(need(x), need(x + 1), input(x + 2)); }
  ValueId dequantised(ValueId x, ValueId scale, ValueId zero, std::int64_t axis = 1) {
    Attributes attributes;
    if (axis != 1) attributes["axis"] = axis;
    return add("DequantizeLinear", {x, single(scale), single(zero)}, std::move(attributes));
  }

  // The draft quantises `x` by the inputs `scale` and `scale` + 1; bytes are those of `like` where
  // there is no zero point.
  void quantise(ValueId x, std::size_t scale, ValueId like) {
    ValueId zero = input(scale + 1);
    if (!zero.valid()) {
      const ValueId none = graph_.add_constant(name_for(draft_, "zero"), Tensor::scalar(0.0F));
      zero = add("CastLike", {none, like});
    }
    become("QuantizeLinear", {x, single(need(scale)), single(zero)});
  }

  void become(std::string op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
    draft_.domain.clear();
    draft_.op = std::move(op);
    draft_.inputs = std::move(inputs);
    draft_.attributes = std::move(attributes);
  }

  // One number in a list is one for the whole tensor, not one per index of an axis.
  ValueId single(ValueId value) {
    const Tensor* tensor = value.valid() ? graph_.constant(value) : nullptr;
    if (tensor == nullptr || tensor->count() != 1 || tensor->rank() == 0) return value;
    return graph_.add_constant(name_for(draft_, fmt::format("scalar{}", added_++)),
                               tensor->reshaped({}));
  }

  NodeDraft& draft() { return draft_; }

 private:
  Graph& graph_;
  NodeDraft& draft_;
  int added_ = 0;
};

void refuse_channels_last(NodeDraft& draft) {
  if (take<std::int64_t>(draft, "channels_last") != 0) {
    upgrade::unsupported(draft.op +
                         " with channels_last, which ONNX Runtime makes while it optimises: load "
                         "the model as it was before");
  }
}

// A, its scale and zero point, B, its scale and zero point, those of the result.
void binary(Translation& t, const std::string& op) {
  const ValueId a = t.dequantised(0);
  const ValueId b = t.dequantised(3);
  t.quantise(t.add(op, {a, b}), 6, t.need(0));
}

// X, its scale and zero point, those of the result. `version`: what the attributes are of.
void unary(Translation& t, const std::string& op, std::int64_t version = kOnnxOpset) {
  Attributes attributes = std::move(t.draft().attributes);
  const ValueId x = t.dequantised(0);
  t.quantise(t.add(op, {x}, std::move(attributes), version), 3, t.need(0));
}

void concat(Translation& t) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 2; i < t.draft().inputs.size(); i += 3) inputs.push_back(t.dequantised(i));
  const ValueId joined = t.add("Concat", std::move(inputs), std::move(t.draft().attributes));
  t.quantise(joined, 0, t.need(2));
}

void where(Translation& t) {
  const ValueId condition = t.need(0);
  const ValueId x = t.dequantised(1);
  const ValueId y = t.dequantised(4);
  t.quantise(t.add("Where", {condition, x, y}), 7, t.need(1));
}

// A, B and C, a scale and zero point behind each of the first two, and those of the result, without
// which it stays float32. C counts in steps of alpha * A's scale * B's.
void gemm(Translation& t) {
  NodeDraft& draft = t.draft();
  const auto trans_b = take<std::int64_t>(draft, "transB");
  const auto alpha = take<float>(draft, "alpha", 1.0F);
  const auto trans_a = take<std::int64_t>(draft, "transA");
  const ValueId like = t.need(0);
  const ValueId a = t.dequantised(0);
  const ValueId b = t.dequantised(t.need(3), t.need(4), t.input(5), trans_b != 0 ? 0 : 1);
  ValueId c;
  if (t.input(6).valid()) {
    const ValueId steps = t.add("Mul", {t.single(t.need(1)), t.single(t.need(4))});
    // Steps of alpha: Gemm multiplies C by beta.
    c = t.dequantised(t.input(6), steps, {}, 0);
  }
  Attributes attributes{
      {"transA", trans_a}, {"transB", trans_b}, {"alpha", alpha}, {"beta", alpha}};
  if (!t.input(7).valid()) return t.become("Gemm", {a, b, c}, std::move(attributes));
  t.quantise(t.add("Gemm", {a, b, c}, std::move(attributes)), 7, like);
}

// Integer sums times both scales, and a bias.
void scaled_sums(Translation& t, ValueId sums, ValueId a_scale, ValueId b_scale, ValueId bias) {
  const ValueId cast = t.add("Cast", {sums}, {{"to", static_cast<std::int64_t>(DType::kFloat32)}});
  const ValueId scale = t.add("Mul", {t.single(a_scale), t.single(b_scale)});
  if (!bias.valid()) return t.become("Mul", {cast, scale});
  t.become("Add", {t.add("Mul", {cast, scale}), bias});
}

void product_to_float(Translation& t) {
  const ValueId sums =
      t.add("MatMulInteger", {t.need(0), t.need(1), t.single(t.input(4)), t.single(t.input(5))});
  scaled_sums(t, sums, t.need(2), t.need(3), t.input(6));
}

}  // namespace

void translate_onnxruntime_op(Graph& graph, NodeDraft& draft) {
  if (draft.domain != kDomain) return;
  Translation t(graph, draft);
  const std::string op = draft.op;
  if (op == "QLinearAdd") return binary(t, "Add");
  if (op == "QLinearMul") return binary(t, "Mul");
  if (op == "QLinearSigmoid") return unary(t, "Sigmoid");
  if (op == "QLinearLeakyRelu") return unary(t, "LeakyRelu");
  if (op == "QLinearConcat") return concat(t);
  if (op == "QLinearWhere") return where(t);
  if (op == "QGemm") return gemm(t);
  if (op == "MatMulIntegerToFloat") return product_to_float(t);
  if (op == "QLinearSoftmax") {
    return unary(t, "Softmax", take<std::int64_t>(draft, "opset", kOnnxOpset));
  }
  if (op == "QLinearReduceMean") return unary(t, "ReduceMean", 13);
  if (op == "QLinearAveragePool" || op == "QLinearGlobalAveragePool") {
    refuse_channels_last(draft);
    return unary(t, op.substr(std::string_view("QLinear").size()));
  }
  if (op == "QuantizeLinear" || op == "DequantizeLinear" || op == "Gelu") draft.domain.clear();
  if (op == "DynamicQuantizeMatMul") {
    const ValueId a = t.need(0);
    const std::string name = name_for(draft, "quantised");
    const NodeId id = graph.add_node("", "DynamicQuantizeLinear", {a},
                                     {name, name + "_scale", name + "_zero"}, {}, name);
    const std::vector<ValueId> q = graph.node(id).outputs;
    const ValueId sums = t.add("MatMulInteger", {q[0], t.need(1), q[2], t.single(t.input(3))});
    scaled_sums(t, sums, q[1], t.need(2), t.input(4));
  }
}

}  // namespace xrt
