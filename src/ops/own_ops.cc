// SPDX-License-Identifier: Apache-2.0
#include "ops/own_ops.h"

#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "onnx/proto.h"

namespace xrt {
namespace {

using onnx::AttributeProto;
using onnx::FunctionBodyBuildContext;
using onnx::FunctionProto;
using onnx::InferenceContext;
using onnx::OpSchema;

constexpr int kVersion = 1;  // of the domain

const onnx::TensorShapeProto* shape_of(InferenceContext& c, std::size_t input) {
  return onnx::hasInputShape(c, input) ? &c.getInputType(input)->tensor_type().shape() : nullptr;
}

void like(InferenceContext& c, std::size_t input, std::size_t output) {
  if (output >= c.getNumOutputs()) return;
  onnx::propagateElemTypeFromInputToOutput(c, input, output);
  if (shape_of(c, input) != nullptr) onnx::propagateShapeFromInputToOutput(c, input, output);
}

void infer_after(InferenceContext& c) {
  if (const onnx::TypeProto* type = c.getInputType(0)) *c.getOutputType(0) = *type;
}

// dW [M, C / group, kernel…], dB [M]
void infer_conv_weight_gradient(InferenceContext& c) {
  for (std::size_t i = 0; i < c.getNumOutputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(c, 1, i);
  }
  const auto* x = shape_of(c, 0);
  const auto* dy = shape_of(c, 1);
  std::vector<std::int64_t> kernel;
  if (x == nullptr || dy == nullptr || !onnx::getRepeatedAttribute(c, "kernel_shape", kernel)) {
    return;
  }
  const std::int64_t groups = onnx::getAttribute(c, "group", 1);
  if (x->dim_size() < 3 || dy->dim_size() != x->dim_size() ||
      kernel.size() + 2 != static_cast<std::size_t>(x->dim_size()) || groups < 1) {
    fail_shape_inference("X, dY, kernel_shape and group do not fit");
  }
  auto* shape = c.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  *shape->add_dim() = dy->dim(1);
  auto* channels = shape->add_dim();
  if (x->dim(1).has_dim_value()) channels->set_dim_value(x->dim(1).dim_value() / groups);
  for (const std::int64_t size : kernel) shape->add_dim()->set_dim_value(size);
  if (c.getNumOutputs() > 1) {
    *c.getOutputType(1)->mutable_tensor_type()->mutable_shape()->add_dim() = dy->dim(1);
  }
}

void infer_batch_norm_gradient(InferenceContext& c) {
  like(c, 0, 0);
  like(c, 1, 1);
  like(c, 1, 2);
}

// Y [times, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden]
void infer_quantized_lstm(InferenceContext& c) {
  for (std::size_t i = 0; i < c.getNumOutputs(); ++i) {
    onnx::propagateElemTypeFromInputToOutput(c, 0, i);
  }
  const auto* x = shape_of(c, 0);
  const auto* r = shape_of(c, 2);
  if (x == nullptr || r == nullptr) return;
  if (x->dim_size() != 3 || r->dim_size() != 3) {
    fail_shape_inference("X or R is not of rank 3");
  }
  for (std::size_t i = 0; i < c.getNumOutputs(); ++i) {
    auto* shape = c.getOutputType(i)->mutable_tensor_type()->mutable_shape();
    if (i == 0) *shape->add_dim() = x->dim(0);
    *shape->add_dim() = r->dim(0);
    *shape->add_dim() = x->dim(1);
    *shape->add_dim() = r->dim(1);
  }
}

// The numbers of `weights` as LSTM has them: [directions, 4 * hidden, rows]. Scales and zero points
// are [directions] or [directions, 4 * hidden].
std::string plain_weights(const std::string& name) {
  return name + "_Steps = Cast<to = 1>(" + name + ")\n" +                          //
         name + "_ZeroFloat = Cast<to = 1>(" + name + "_zero_point)\n" +           //
         name + "_ZeroFlat = Reshape(" + name + "_ZeroFloat, Columns)\n" +         //
         name + "_ScaleFlat = Reshape(" + name + "_scale, Columns)\n" +            //
         name + "_Centred = Sub(" + name + "_Steps, " + name + "_ZeroFlat)\n" +    //
         name + "_Scaled = Mul(" + name + "_Centred, " + name + "_ScaleFlat)\n" +  //
         name + "_Plain = Transpose<perm = [0, 2, 1]>(" + name + "_Scaled)\n";
}

// X is rounded as the op says, h is not: that would take a loop.
bool quantized_lstm_body(const FunctionBodyBuildContext& context, const OpSchema& schema,
                         FunctionProto& function) {
  onnx::FunctionBuilder builder(function);
  builder.Const("Columns", std::vector<std::int64_t>{0, 1, -1});
  builder.Add("X_Bytes, X_Scale, X_Zero = DynamicQuantizeLinear(X)");
  builder.Add("X_Rounded = DequantizeLinear(X_Bytes, X_Scale, X_Zero)");
  builder.Add(plain_weights("W").c_str());
  builder.Add(plain_weights("R").c_str());
  std::vector<std::string> inputs{"X_Rounded", "W_Plain", "R_Plain"};
  constexpr std::array kOptional{"B", "sequence_lens", "initial_h", "initial_c", "P"};
  for (std::size_t i = 0; i < kOptional.size(); ++i) {
    inputs.emplace_back(context.hasInput(static_cast<int>(i) + 3) ? kOptional[i] : "");
  }
  while (inputs.back().empty()) inputs.pop_back();
  auto& lstm = *function.add_node();
  lstm.set_op_type("LSTM");
  for (const std::string& input : inputs) lstm.add_input(input);
  constexpr std::array kOutputs{"Y", "Y_h", "Y_c"};
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    lstm.add_output(context.hasOutput(static_cast<int>(i)) ? kOutputs[i] : "");
  }
  for (const auto& [name, attribute] : schema.attributes()) {
    if (context.getAttribute(name) == nullptr) continue;
    auto& reference = *lstm.add_attribute();
    reference.set_name(name);
    reference.set_ref_attr_name(name);
    reference.set_type(attribute.type);
  }
  schema.BuildFunction(function);
  return true;
}

const std::vector<std::string>& floats() {
  static const std::vector<std::string> types = {"tensor(float)", "tensor(double)",
                                                 "tensor(float16)", "tensor(bfloat16)"};
  return types;
}

OpSchema after() {
  return OpSchema()
      .SetName("After")
      .SetDoc("Y = X, which may be used as soon as `token` has been computed.")
      .Input(0, "X", "", "T")
      .Input(1, "token", "", "T1")
      .Output(0, "Y", "", "T")
      .TypeConstraint("T", OpSchema::all_tensor_types_ir13(), "")
      .TypeConstraint("T1", OpSchema::all_tensor_types_ir13(), "")
      .TypeAndShapeInferenceFunction(infer_after);
}

OpSchema batch_norm_gradient() {
  return OpSchema()
      .SetName("BatchNormalizationGradient")
      .SetDoc(
          "With x̂ = (X − mean)/√(var + ε) and n elements per channel: dBias = Σ dY, "
          "dScale = Σ dY·x̂, dX = scale/√(var + ε) · (dY − dBias/n − x̂·dScale/n). `mean` and `var` "
          "(biased) are those of X.")
      .Input(0, "X", "", "T")
      .Input(1, "scale", "", "T1")
      .Input(2, "mean", "", "T1")
      .Input(3, "var", "", "T1")
      .Input(4, "dY", "", "T")
      .Output(0, "dX", "", "T")
      .Output(1, "dScale", "", "T1")
      .Output(2, "dBias", "", "T1")
      .Attr("epsilon", "", AttributeProto::FLOAT, 1e-5F)
      .TypeConstraint("T", floats(), "")
      .TypeConstraint("T1", floats(), "")
      .TypeAndShapeInferenceFunction(infer_batch_norm_gradient);
}

// Attributes of a window whose padding is explicit.
OpSchema& add_window(OpSchema& schema) {
  return schema.Attr("kernel_shape", "", AttributeProto::INTS, true)
      .Attr("strides", "", AttributeProto::INTS, false)
      .Attr("dilations", "", AttributeProto::INTS, false)
      .Attr("pads", "", AttributeProto::INTS, false);
}

OpSchema conv_weight_gradient() {
  OpSchema schema;
  schema.SetName("ConvWeightGradient")
      .SetDoc(
          "dW[m,c,k…] = Σ over n, o… of dY[n,m,o…] · X[n, group's c, o·stride + k·dilation − "
          "pad…]; "
          "dB[m] = Σ dY[n,m,…]. Attributes of Conv.")
      .Input(0, "X", "", "T")
      .Input(1, "dY", "", "T")
      .Output(0, "dW", "", "T")
      .Output(1, "dB", "", "T", OpSchema::Optional)
      .Attr("group", "", AttributeProto::INT, static_cast<std::int64_t>(1))
      .TypeConstraint("T", floats(), "")
      .TypeAndShapeInferenceFunction(infer_conv_weight_gradient);
  return add_window(schema);
}

OpSchema dynamic_quantize_lstm() {
  const std::vector<std::string> bytes{"tensor(int8)", "tensor(uint8)"};
  return OpSchema()
      .SetName("DynamicQuantizeLSTM")
      .SetDoc(
          "LSTM with weights of bytes, W [directions, inputs, 4·hidden] and R [directions, hidden, "
          "4·hidden], which stand for (byte − zero point)·scale; one scale and zero point a "
          "direction, or one a column. X is rounded to bytes as DynamicQuantizeLinear does, all of "
          "it by one scale; the state h of each sequence likewise, at every step. In the body, for "
          "engines without such products, h is not rounded. Attributes of LSTM.")
      .Input(0, "X", "", "T")
      .Input(1, "W", "", "T2")
      .Input(2, "R", "", "T2")
      .Input(3, "B", "", "T", OpSchema::Optional)
      .Input(4, "sequence_lens", "", "T1", OpSchema::Optional)
      .Input(5, "initial_h", "", "T", OpSchema::Optional)
      .Input(6, "initial_c", "", "T", OpSchema::Optional)
      .Input(7, "P", "", "T", OpSchema::Optional)
      .Input(8, "W_scale", "", "T")
      .Input(9, "W_zero_point", "", "T2")
      .Input(10, "R_scale", "", "T")
      .Input(11, "R_zero_point", "", "T2")
      .Output(0, "Y", "", "T", OpSchema::Optional)
      .Output(1, "Y_h", "", "T", OpSchema::Optional)
      .Output(2, "Y_c", "", "T", OpSchema::Optional)
      .Attr("activation_alpha", "", AttributeProto::FLOATS, false)
      .Attr("activation_beta", "", AttributeProto::FLOATS, false)
      .Attr("activations", "", AttributeProto::STRINGS, false)
      .Attr("clip", "", AttributeProto::FLOAT, false)
      .Attr("direction", "", AttributeProto::STRING, std::string("forward"))
      .Attr("hidden_size", "", AttributeProto::INT, false)
      .Attr("input_forget", "", AttributeProto::INT, static_cast<std::int64_t>(0))
      .TypeConstraint("T", {"tensor(float)"}, "")
      .TypeConstraint("T1", {"tensor(int32)"}, "")
      .TypeConstraint("T2", bytes, "")
      .TypeAndShapeInferenceFunction(infer_quantized_lstm)
      .SetContextDependentFunctionBodyBuilder(quantized_lstm_body, kVersion);
}

OpSchema max_pool_gradient() {
  OpSchema schema;
  schema.SetName("MaxPoolGradient")
      .SetDoc(
          "Each element of dY is added where the first maximum of its window is. Attributes of "
          "MaxPool.")
      .Input(0, "X", "", "T")
      .Input(1, "dY", "", "T")
      .Output(0, "dX", "", "T")
      .Attr("ceil_mode", "", AttributeProto::INT, static_cast<std::int64_t>(0))
      .Attr("storage_order", "", AttributeProto::INT, static_cast<std::int64_t>(0))
      .Attr("auto_pad", "", AttributeProto::STRING, false)
      .TypeConstraint("T", floats(), "")
      .TypeAndShapeInferenceFunction([](InferenceContext& c) { like(c, 0, 0); });
  return add_window(schema);
}

bool register_all() {
  onnx::OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion(kOwnDomain, kVersion,
                                                                              kVersion);
  for (OpSchema schema : {after(), batch_norm_gradient(), conv_weight_gradient(),
                          dynamic_quantize_lstm(), max_pool_gradient()}) {
    schema.SetDomain(kOwnDomain).SinceVersion(kVersion).SetLocation(__FILE__, 0);
    onnx::RegisterSchema(std::move(schema), 0, /*fail_duplicate_schema=*/true,
                         /*fail_with_exception=*/true);
  }
  return true;
}

}  // namespace

void register_own_ops() {
  static const bool registered = register_all();
  static_cast<void>(registered);
}

}  // namespace xrt
