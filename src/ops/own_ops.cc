// SPDX-License-Identifier: Apache-2.0
#include "ops/own_ops.h"

#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>

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
  for (OpSchema schema :
       {after(), batch_norm_gradient(), conv_weight_gradient(), max_pool_gradient()}) {
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
