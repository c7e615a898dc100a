// SPDX-License-Identifier: Apache-2.0
// Activations, with what is added in front of them.
#include <fmt/format.h>

#include <array>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

ValueId sigmoid_linear(Rewriting& r, ValueId x, float alpha) {
  const ValueId scaled = alpha == 1.0F ? x : r.mul(x, r.number(alpha, x));
  return r.mul(x, r.op("Sigmoid", {scaled}));
}

ValueId parametric_softplus(Rewriting& r, ValueId x, float alpha, float beta) {
  return r.mul(r.op("Softplus", {r.mul(x, r.number(beta, x))}), r.number(alpha, x));
}

ValueId scaled_tanh(Rewriting& r, ValueId x, float alpha, float beta) {
  return r.mul(r.op("Tanh", {r.mul(x, r.number(beta, x))}), r.number(alpha, x));
}

ValueId with_bias(Rewriting& r, std::size_t x, std::size_t bias) {
  return r.input(bias).valid() ? r.add(r.need(x), r.input(bias)) : r.need(x);
}

void rewrite_bias_gelu(Rewriting& r) { r.become("Gelu", {with_bias(r, 0, 1)}); }

void rewrite_fast_gelu(Rewriting& r) {
  r.become("Gelu", {with_bias(r, 0, 1)}, {{"approximate", std::string("tanh")}});
}

void rewrite_quick_gelu(Rewriting& r) {
  const float alpha = r.float_attr("alpha", 1.702F);
  r.finish({sigmoid_linear(r, r.need(0), alpha)});
}

// The halves of the last axis of x + bias: one times the Gelu of the other.
void rewrite_bias_split_gelu(Rewriting& r) {
  const ValueId sum = r.add(r.need(0), r.need(1));
  const Values halves =
      r.ops("Split", {sum}, 2, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}});
  r.finish({r.mul(halves[0], r.op("Gelu", {halves[1]}))});
}

void rewrite_bias_add(Rewriting& r) { r.finish({r.add(r.add(r.need(0), r.need(1)), r.need(2))}); }

// z = scale * x, rounded; z * sigmoid(z).
void rewrite_scaled_silu(Rewriting& r) {
  const float alpha = r.float_attr("alpha", 1.0F);
  const ValueId x = r.need(0);
  const ValueId scale =
      r.input(1).valid() ? r.cast(r.single(r.input(1)), DType::kFloat32) : r.float_number(alpha);
  const ValueId z = r.cast_like(r.mul(r.cast(x, DType::kFloat32), scale), x);
  r.finish({r.mul(z, r.op("Sigmoid", {z}))});
}

void rewrite_affine(Rewriting& r) {
  const float alpha = r.float_attr("alpha", 1.0F);
  const float beta = r.float_attr("beta", 0.0F);
  const ValueId x = r.need(0);
  r.finish({r.add(r.mul(x, r.number(alpha, x)), r.number(beta, x))});
}

void rewrite_scale(Rewriting& r) {
  const float scale = r.float_attr("scale", 1.0F);
  r.finish({r.mul(r.need(0), r.number(scale, r.need(0)))});
}

// x * scale, and a bias for each channel.
void rewrite_image_scaler(Rewriting& r) {
  const ValueId x = r.need(0);
  const float scale = r.float_attr("scale", 1.0F);
  ValueId y = r.mul(x, r.number(scale, x));
  const auto bias = r.attributes().find("bias");
  if (bias != r.attributes().end()) {
    const auto* values = std::get_if<std::vector<float>>(&bias->second);
    if (values == nullptr) throw Error(ErrorCode::kInvalidModel, "its bias is no list of numbers");
    const auto channels = static_cast<std::int64_t>(values->size());
    const ValueId column = r.constant(
        Tensor::from<float>(DType::kFloat32, {channels, 1, 1}, std::span<const float>(*values)));
    y = r.add(y, r.cast_like(column, x));
  }
  r.finish({y});
}

void rewrite_parametric_softplus(Rewriting& r) {
  const float alpha = r.float_attr("alpha", 1.0F);
  const float beta = r.float_attr("beta", 1.0F);
  r.finish({parametric_softplus(r, r.need(0), alpha, beta)});
}

void rewrite_scaled_tanh(Rewriting& r) {
  const float alpha = r.float_attr("alpha", 1.0F);
  const float beta = r.float_attr("beta", 1.0F);
  r.finish({scaled_tanh(r, r.need(0), alpha, beta)});
}

constexpr auto kActivations = std::to_array<Entry>({
    {"", "Affine", rewrite_affine},
    {"", "ImageScaler", rewrite_image_scaler},
    {"", "ParametricSoftplus", rewrite_parametric_softplus},
    {"", "Scale", rewrite_scale},
    {"", "ScaledTanh", rewrite_scaled_tanh},
    {kMicrosoft, "BiasAdd", rewrite_bias_add},
    {kMicrosoft, "BiasGelu", rewrite_bias_gelu},
    {kMicrosoft, "BiasSplitGelu", rewrite_bias_split_gelu},
    {kMicrosoft, "FastGelu", rewrite_fast_gelu},
    {kMicrosoft, "Gelu", rewrite_bias_gelu},
    {kMicrosoft, "QuickGelu", rewrite_quick_gelu},
    {kMicrosoft, "ScaledSiLU", rewrite_scaled_silu},
});

}  // namespace

ValueId apply_activation(Rewriting& r, ValueId x, const std::string& name,
                         const std::vector<float>& parameters) {
  const auto with = [&](std::initializer_list<const char*> names) {
    Attributes attributes;
    std::size_t i = 0;
    for (const char* attribute : names) {
      if (i < parameters.size()) attributes[attribute] = parameters[i];
      ++i;
    }
    return r.op(name, {x}, std::move(attributes));
  };
  if (name.empty() || name == "Identity") return x;
  if (name == "Relu" || name == "Tanh" || name == "Sigmoid" || name == "Softplus" ||
      name == "Softsign" || name == "HardSwish") {
    return r.op(name, {x});
  }
  if (name == "Silu" || name == "Swish") return sigmoid_linear(r, x, 1.0F);
  if (name == "Gelu") return r.op("Gelu", {x});
  if (name == "QuickGelu") {
    return sigmoid_linear(r, x, parameters.empty() ? 1.702F : parameters[0]);
  }
  if (name == "LeakyRelu" || name == "Elu" || name == "Celu" || name == "ThresholdedRelu") {
    return with({"alpha"});
  }
  if (name == "HardSigmoid") return with({"alpha", "beta"});
  if (name == "Selu") return with({"alpha", "gamma"});
  if (name == "Clip" && parameters.size() == 2) {
    return r.op("Clip", {x, r.number(parameters[0], x), r.number(parameters[1], x)});
  }
  if (name == "ParametricSoftplus" && parameters.size() == 2) {
    return parametric_softplus(r, x, parameters[0], parameters[1]);
  }
  if (name == "ScaledTanh" && parameters.size() == 2) {
    return scaled_tanh(r, x, parameters[0], parameters[1]);
  }
  r.refuse(
      fmt::format("its activation '{}' with {} parameters is not known", name, parameters.size()));
}

std::span<const Entry> activation_ops() { return kActivations; }

}  // namespace xrt::contributed
