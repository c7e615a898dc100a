// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime's quantiser and optimiser write of integers. Most become DequantizeLinear, the
// op, QuantizeLinear: what an engine makes of those it makes of models in QOperator form, too.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

// The numbers that `x` stands for.
ValueId dequantised(Rewriting& r, ValueId x, ValueId scale, ValueId zero, std::int64_t axis = 1) {
  Attributes attributes;
  if (axis != 1) attributes["axis"] = axis;
  return r.op("DequantizeLinear", {x, r.single(scale), r.single(zero)}, std::move(attributes));
}

// Input `i`, whose scale and zero point are the next two.
ValueId dequantised(Rewriting& r, std::size_t i) {
  return dequantised(r, r.need(i), r.need(i + 1), r.input(i + 2));
}

// `x` by the inputs `scale` and `scale` + 1; bytes are those of `like` without a zero point.
ValueId quantised(Rewriting& r, ValueId x, std::size_t scale, ValueId like) {
  ValueId zero = r.single(r.input(scale + 1));
  if (!zero.valid()) zero = r.cast_like(r.float_number(0.0F), like);
  return r.op("QuantizeLinear", {x, r.single(r.need(scale)), zero});
}

// A, its scale and zero point, B, its scale and zero point, those of the result.
void quantised_binary(Rewriting& r, std::string_view op) {
  const ValueId a = dequantised(r, 0);
  const ValueId b = dequantised(r, 3);
  r.finish({quantised(r, r.op(op, {a, b}), 6, r.need(0))});
}

void rewrite_qlinear_add(Rewriting& r) { quantised_binary(r, "Add"); }
void rewrite_qlinear_mul(Rewriting& r) { quantised_binary(r, "Mul"); }

// X, its scale and zero point, those of the result. `version`: what the attributes are of.
void quantised_unary(Rewriting& r, std::string_view op, std::int64_t version = kOnnxOpset,
                     bool channels_last = false) {
  Attributes attributes = std::move(r.attributes());
  ValueId x = dequantised(r, 0);
  if (channels_last) x = r.channels_first(x);
  ValueId y = version == kOnnxOpset ? r.op(op, {x}, std::move(attributes))
                                    : r.old_op(op, {x}, std::move(attributes), version);
  if (channels_last) y = r.channels_last(y);
  r.finish({quantised(r, y, 3, r.need(0))});
}

void rewrite_qlinear_sigmoid(Rewriting& r) { quantised_unary(r, "Sigmoid"); }
void rewrite_qlinear_leaky_relu(Rewriting& r) { quantised_unary(r, "LeakyRelu"); }
void rewrite_qlinear_reduce_mean(Rewriting& r) { quantised_unary(r, "ReduceMean", 13); }

// The last axis without an attribute, in every opset.
void rewrite_qlinear_softmax(Rewriting& r) {
  const auto version = r.int_attr("opset", kOnnxOpset, {1, kOnnxOpset});
  if (!r.has_attr("axis")) r.attributes()["axis"] = std::int64_t{-1};
  quantised_unary(r, "Softmax", version);
}

// With ceil_mode and count_include_pad a window may reach beyond the padding. Here it counts no
// element there, as AveragePool defines it and ONNX Runtime computes AveragePool in floats; its
// QLinearAveragePool divides by the whole window.
void rewrite_qlinear_pool(Rewriting& r) {
  const bool last = r.flag("channels_last");
  quantised_unary(r, r.op_name().substr(std::string_view("QLinear").size()), kOnnxOpset, last);
}

void rewrite_qlinear_concat(Rewriting& r) {
  Values inputs;
  for (std::size_t i = 2; i < r.input_count(); i += 3) inputs.push_back(dequantised(r, i));
  const ValueId joined = r.op("Concat", std::move(inputs), std::move(r.attributes()));
  r.finish({quantised(r, joined, 0, r.need(2))});
}

void rewrite_qlinear_where(Rewriting& r) {
  const ValueId condition = r.need(0);
  const ValueId x = dequantised(r, 1);
  const ValueId y = dequantised(r, 4);
  r.finish({quantised(r, r.where(condition, x, y), 7, r.need(1))});
}

// The standard's, but channels may be in the last place.
void rewrite_qlinear_conv(Rewriting& r) {
  const bool last = r.flag("channels_last");
  const ValueId x = last ? r.channels_first(r.need(0)) : r.need(0);
  const ValueId y =
      r.op("QLinearConv",
           {x, r.single(r.need(1)), r.single(r.need(2)), r.need(3), r.single(r.need(4)),
            r.single(r.need(5)), r.single(r.need(6)), r.single(r.need(7)), r.input(8)},
           std::move(r.attributes()));
  r.finish({last ? r.channels_last(y, x) : y});
}

// A, B and C, a scale and zero point behind each of the first two, and those of the result, without
// which it stays float32. C counts in steps of alpha * A's scale * B's.
void rewrite_qgemm(Rewriting& r) {
  const bool trans_b = r.flag("transB");
  const auto alpha = r.float_attr("alpha", 1.0F);
  const bool trans_a = r.flag("transA");
  const ValueId a = dequantised(r, 0);
  const ValueId b = dequantised(r, r.need(3), r.need(4), r.input(5), trans_b ? 0 : 1);
  ValueId c;
  if (r.input(6).valid()) {
    const ValueId steps = r.mul(r.single(r.need(1)), r.single(r.need(4)));
    // Steps of alpha: Gemm multiplies C by beta.
    const ValueId counts = r.cast(r.input(6), DType::kFloat32);
    c = r.mul(counts, steps);
  }
  const ValueId y = r.op("Gemm", {a, b, c},
                         {{"transA", static_cast<std::int64_t>(trans_a)},
                          {"transB", static_cast<std::int64_t>(trans_b)},
                          {"alpha", alpha},
                          {"beta", alpha}});
  r.finish({r.input(7).valid() ? quantised(r, y, 7, r.need(0)) : y});
}

// Integer sums times both scales, and a bias.
void finish_scaled_sums(Rewriting& r, ValueId sums, ValueId a_scale, ValueId b_scale,
                        ValueId bias) {
  const ValueId floats = r.cast_like(
      r.op("Cast", {sums}, {{"to", static_cast<std::int64_t>(DType::kFloat32)}}), b_scale);
  const ValueId y = r.mul(floats, r.mul(r.single(a_scale), r.single(b_scale)));
  r.finish({bias.valid() ? r.add(y, bias) : y});
}

void rewrite_matmul_integer_to_float(Rewriting& r) {
  const ValueId sums =
      r.op("MatMulInteger", {r.need(0), r.need(1), r.single(r.input(4)), r.single(r.input(5))});
  finish_scaled_sums(r, sums, r.need(2), r.need(3), r.input(6));
}

void rewrite_dynamic_quantize_matmul(Rewriting& r) {
  const Values q = r.ops("DynamicQuantizeLinear", {r.need(0)}, 3);
  const ValueId sums = r.op("MatMulInteger", {q[0], r.need(1), q[2], r.single(r.input(3))});
  finish_scaled_sums(r, sums, q[1], r.need(2), r.input(4));
}

// Without an axis, scale and zero point are those of the whole tensor.
void rewrite_quantize(Rewriting& r) {
  const bool whole = !r.has_attr("axis");
  const auto one = [&](ValueId v) { return whole ? r.single(v) : v; };
  r.become(r.op_name(), {r.need(0), one(r.need(1)), one(r.input(2))}, std::move(r.attributes()));
}

// The op of the domain "xrt" with the same operands: no expression of the standard's ops rounds the
// hidden state at every step, but a loop.
void rewrite_dynamic_quantize_lstm(Rewriting& r) {
  Values inputs;
  for (std::size_t i = 0; i < 12; ++i) inputs.push_back(r.input(i));
  r.become("DynamicQuantizeLSTM", std::move(inputs), std::move(r.attributes()), kOwn);
}

constexpr auto kQuantised = std::to_array<Entry>({
    {kMicrosoft, "DequantizeLinear", rewrite_quantize},
    {kMicrosoft, "DynamicQuantizeLSTM", rewrite_dynamic_quantize_lstm},
    {kMicrosoft, "DynamicQuantizeMatMul", rewrite_dynamic_quantize_matmul},
    {kMicrosoft, "MatMulIntegerToFloat", rewrite_matmul_integer_to_float},
    {kMicrosoft, "QGemm", rewrite_qgemm},
    {kMicrosoft, "QLinearAdd", rewrite_qlinear_add},
    {kMicrosoft, "QLinearAveragePool", rewrite_qlinear_pool},
    {kMicrosoft, "QLinearConcat", rewrite_qlinear_concat},
    {kMicrosoft, "QLinearConv", rewrite_qlinear_conv},
    {kMicrosoft, "QLinearGlobalAveragePool", rewrite_qlinear_pool},
    {kMicrosoft, "QLinearLeakyRelu", rewrite_qlinear_leaky_relu},
    {kMicrosoft, "QLinearMul", rewrite_qlinear_mul},
    {kMicrosoft, "QLinearReduceMean", rewrite_qlinear_reduce_mean},
    {kMicrosoft, "QLinearSigmoid", rewrite_qlinear_sigmoid},
    {kMicrosoft, "QLinearSoftmax", rewrite_qlinear_softmax},
    {kMicrosoft, "QLinearWhere", rewrite_qlinear_where},
    {kMicrosoft, "QuantizeLinear", rewrite_quantize},
});

}  // namespace

std::span<const Entry> quantised_ops() { return kQuantised; }

}  // namespace xrt::contributed
