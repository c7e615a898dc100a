// SPDX-License-Identifier: Apache-2.0
#include "ops/body_mends.h"

#include <string>
#include <string_view>
#include <vector>

namespace xrt {
namespace {

// Nodes may come in any order: whoever reads the body sorts them.
onnx::NodeProto& add_node(onnx::FunctionProto& function, std::string_view op,
                          const std::vector<std::string>& inputs, std::string_view output) {
  onnx::NodeProto& node = *function.add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(std::string(output));
  return node;
}

void add_float_cast(onnx::FunctionProto& function, const std::string& from, std::string_view to) {
  onnx::AttributeProto& type = *add_node(function, "Cast", {from}, to).add_attribute();
  type.set_name("to");
  type.set_type(onnx::AttributeProto::INT);
  type.set_i(onnx::TensorProto::FLOAT);
}

// Of one node.
void replace_input(onnx::NodeProto& node, std::string_view from, std::string_view to) {
  for (std::string& input : *node.mutable_input()) {
    if (input == from) input = to;
  }
}

// The row is dropped by a Squeeze without axes in two dimensions, which takes the batch along where
// that is 1.
void mend_affine_grid(onnx::FunctionProto& function) {
  for (onnx::NodeProto& node : *function.mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (!attribute.has_g()) continue;
      for (onnx::NodeProto& inner : *attribute.mutable_g()->mutable_node()) {
        if (inner.op_type() == "Squeeze" && inner.input_size() == 1) inner.add_input("one_1d");
      }
    }
  }
}

// There is no -lambd among unsigned integers: they are compared as floating-point numbers.
void mend_unsigned_shrink(onnx::FunctionProto& function) {
  for (onnx::NodeProto& node : *function.mutable_node()) {
    if (node.op_type() != "Neg" && node.op_type() != "Less") continue;
    replace_input(node, "LambdCast", "Lambd");
    replace_input(node, "input", "InputFloat");
  }
  add_float_cast(function, "input", "InputFloat");
}

// The least deviation is a float32, and nothing in 16 bits: those are normalised in 32.
void mend_half_normalization(onnx::FunctionProto& function) {
  for (onnx::NodeProto& node : *function.mutable_node()) {
    replace_input(node, "X", "X_float");
    if (node.output(0) == "Y") node.set_output(0, "Y_float");
  }
  add_float_cast(function, "X", "X_float");
  add_node(function, "CastLike", {"Y_float", "X"}, "Y");
}

// The mean of the squares less the square of the mean may turn out below 0.
void mend_variance(onnx::FunctionProto& function) {
  for (onnx::NodeProto& node : *function.mutable_node()) {
    if (node.op_type() == "Sqrt") replace_input(node, "Variance", "VarianceFromZero");
  }
  add_node(function, "Relu", {"Variance"}, "VarianceFromZero");
}

void mend_double_normalization(onnx::FunctionProto& function) {
  for (onnx::NodeProto& node : *function.mutable_node()) {
    replace_input(node, "Epsilon", "EpsilonCast");
  }
  add_node(function, "CastLike", {"Epsilon", "X"}, "EpsilonCast");
}

// What hides an element is minus infinity, which no integer is.
void mend_integer_mask(onnx::FunctionProto& function) {
  for (onnx::NodeProto& node : *function.mutable_node()) {
    replace_input(node, "attn_mask", "MaskFloat");
  }
  add_float_cast(function, "attn_mask", "MaskFloat");
}

// Heads side by side are taken apart with the batch of the queries and the length of the keys,
// whatever those of the operand are: its elements would be taken for others.
void mend_heads_of_attention(onnx::FunctionProto& function) {
  std::vector<std::string> operands;
  for (onnx::NodeProto& node : *function.mutable_node()) {
    if (node.op_type() != "Reshape" || node.input_size() != 2) continue;
    const std::string& operand = node.input(0);
    if (operand != "Q" && operand != "K" && operand != "V") continue;
    operands.push_back(operand);
    node.set_input(1, "OwnShapeOf" + operand);
  }
  if (operands.empty()) return;
  onnx::AttributeProto& sizes = *add_node(function, "Constant", {}, "OwnSizes").add_attribute();
  sizes.set_name("value_ints");
  sizes.set_type(onnx::AttributeProto::INTS);
  sizes.add_ints(0);
  sizes.add_ints(0);
  for (const std::string& operand : operands) {
    const std::string heads = operand == "Q" ? "QNumHeadsAttr" : "KVNumHeadsAttr";
    onnx::AttributeProto& axis =
        *add_node(function, "Concat", {"OwnSizes", heads, "NegOne"}, "OwnShapeOf" + operand)
             .add_attribute();
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    axis.set_i(0);
  }
}

DType dtype_of(const Graph& graph, const Node& node, std::size_t operand) {
  const ValueId v = node.input(operand);
  return v.valid() ? graph.type(v).dtype : DType::kUndefined;
}

}  // namespace

void mend_body(const Graph& graph, const Node& node, onnx::FunctionProto& function) {
  if (!node.domain.empty()) return;
  const DType dtype = dtype_of(graph, node, 0);
  if (node.op == "Attention") {
    mend_heads_of_attention(function);
    if (is_integer(dtype_of(graph, node, 3))) mend_integer_mask(function);
  }
  if (node.op == "AffineGrid") mend_affine_grid(function);
  if (node.op == "Shrink" && is_integer(dtype) && !is_signed_integer(dtype)) {
    mend_unsigned_shrink(function);
  }
  if (node.op != "MeanVarianceNormalization") return;
  mend_variance(function);
  if (dtype == DType::kFloat64) mend_double_normalization(function);
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) mend_half_normalization(function);
}

}  // namespace xrt
