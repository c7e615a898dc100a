// SPDX-License-Identifier: Apache-2.0
// Ops of one tensor, element by element.
#include <algorithm>
#include <numbers>
#include <string_view>

#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/ops/op_name.h"

namespace xrt::oneflow {
namespace {

// The op of ONNX that means the same.
template <OpName kOp>
void same(Lowering& l) {
  l.result(0, l.op(kOp.value, {l.in()}));
}

void identity(Lowering& l) { l.result(0, l.in()); }

void cast(Lowering& l) {
  constexpr std::int64_t kInt8 = 4;  // of OneFlow's DataType; the type itself is written as bool's
  if (l.integer("dtype", 0) == kInt8) l.unsupported("int8 cannot be told from bool");
  const DType to = l.result_type().dtype;
  l.result(0, l.dtype() == to ? l.in() : l.cast(l.in(), to));
}

void gelu(Lowering& l) { l.result(0, l.op("Gelu", {l.in()})); }

void fast_gelu(Lowering& l) {
  l.result(0, l.op("Gelu", {l.in()}, {{"approximate", std::string("tanh")}}));
}

void quick_gelu(Lowering& l) {
  const ValueId scaled = l.mul(l.in(), l.scalar(1.702, l.dtype()));
  l.result(0, l.mul(l.in(), l.op("Sigmoid", {scaled})));
}

void silu(Lowering& l) { l.result(0, l.mul(l.in(), l.op("Sigmoid", {l.in()}))); }

void hardsigmoid(Lowering& l) {
  l.result(0, l.op("HardSigmoid", {l.in()}, {{"alpha", 1.0F / 6.0F}, {"beta", 0.5F}}));
}

void hardtanh(Lowering& l) {
  l.result(0, l.op("Clip", {l.in(), l.scalar(l.real("min_val"), l.dtype()),
                            l.scalar(l.real("max_val"), l.dtype())}));
}

void elu(Lowering& l) {
  l.result(0, l.op("Elu", {l.in()}, {{"alpha", static_cast<float>(l.real("alpha", 1))}}));
}

void celu(Lowering& l) {
  l.result(0, l.op("Celu", {l.in()}, {{"alpha", static_cast<float>(l.real("alpha", 1))}}));
}

void leaky_relu(Lowering& l) {
  l.result(0, l.op("LeakyRelu", {l.in()}, {{"alpha", static_cast<float>(l.real("alpha"))}}));
}

// One slope, or one per channel.
void prelu(Lowering& l) {
  Dims shape(static_cast<std::size_t>(std::max<std::int64_t>(l.rank() - 1, 1)), 1);
  shape.front() = l.dims(1).empty() ? 1 : l.dims(1).front();
  l.result(0, l.op("PRelu", {l.in(), l.reshape(l.in(1), shape)}));
}

// log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.
void softplus(Lowering& l) {
  const double beta = l.real("beta", 1), threshold = l.real("threshold", 20);
  const ValueId scaled = beta == 1 ? l.in() : l.mul(l.in(), l.scalar(beta, l.dtype()));
  ValueId y = l.op("Softplus", {scaled});
  if (beta != 1) y = l.div(y, l.scalar(beta, l.dtype()));
  const ValueId large = l.op("Greater", {scaled, l.scalar(threshold, l.dtype())});
  l.result(0, l.where(large, l.in(), y));
}

void softshrink(Lowering& l) {
  const auto lambda = static_cast<float>(l.real("alpha", 0.5));
  l.result(0, l.op("Shrink", {l.in()}, {{"lambd", lambda}, {"bias", lambda}}));
}

void hardshrink(Lowering& l) {
  l.result(0, l.op("Shrink", {l.in()}, {{"lambd", static_cast<float>(l.real("lambd", 0.5))}}));
}

void threshold(Lowering& l) {
  const ValueId above = l.op("Greater", {l.in(), l.scalar(l.real("threshold_val"), l.dtype())});
  l.result(0, l.where(above, l.in(), l.scalar(l.real("value"), l.dtype())));
}

void square(Lowering& l) { l.result(0, l.mul(l.in(), l.in())); }

void rsqrt(Lowering& l) { l.result(0, l.op("Reciprocal", {l.op("Sqrt", {l.in()})})); }

void log1p(Lowering& l) { l.result(0, l.op("Log", {l.add(l.in(), l.scalar(1, l.dtype()))})); }

void expm1(Lowering& l) { l.result(0, l.sub(l.op("Exp", {l.in()}), l.scalar(1, l.dtype()))); }

void exp2(Lowering& l) {
  l.result(0, l.op("Exp", {l.mul(l.in(), l.scalar(std::numbers::ln2, l.dtype()))}));
}

void log2(Lowering& l) {
  l.result(0, l.div(l.op("Log", {l.in()}), l.scalar(std::numbers::ln2, l.dtype())));
}

void erfc(Lowering& l) { l.result(0, l.sub(l.scalar(1, l.dtype()), l.op("Erf", {l.in()}))); }

// log(sigmoid(x)) = -log(1 + exp(-x))
void log_sigmoid(Lowering& l) {
  l.result(0, l.op("Neg", {l.op("Softplus", {l.op("Neg", {l.in()})})}));
}

void reciprocal_no_nan(Lowering& l) {
  const ValueId zero = l.scalar(0, l.dtype());
  l.result(0, l.where(l.op("Equal", {l.in(), zero}), zero, l.op("Reciprocal", {l.in()})));
}

// Rounds towards zero.
void trunc(Lowering& l) {
  const ValueId negative = l.op("Less", {l.in(), l.scalar(0, l.dtype())});
  l.result(0, l.where(negative, l.op("Ceil", {l.in()}), l.op("Floor", {l.in()})));
}

void logical_not(Lowering& l) {
  const ValueId x = l.dtype() == DType::kBool ? l.in() : l.cast(l.in(), DType::kBool);
  l.result(0, l.op("Not", {x}));
}

void not_equal_zero(Lowering& l) {
  const ValueId differs = l.op("Not", {l.op("Equal", {l.in(), l.scalar(0, l.dtype())})});
  const DType to = l.result_type().dtype;
  l.result(0, to == DType::kBool ? differs : l.cast(differs, to));
}

// Bounds are said twice, for floating and integral tensors.
ValueId bound(Lowering& l, const char* floating, const char* integral) {
  return is_floating(l.dtype()) ? l.scalar(l.real(floating), l.dtype())
                                : l.scalar(l.integer(integral), l.dtype());
}

void clip(Lowering& l) {
  l.result(0, l.op("Clip", {l.in(), bound(l, "floating_min", "integral_min"),
                            bound(l, "floating_max", "integral_max")}));
}

void clip_min(Lowering& l) {
  l.result(0, l.op("Max", {l.in(), bound(l, "floating_min", "integral_min")}));
}

void clip_max(Lowering& l) {
  l.result(0, l.op("Min", {l.in(), bound(l, "floating_max", "integral_max")}));
}

}  // namespace

void register_elementwise(Registry& r) {
  r.add("abs", same<"Abs">);
  r.add("acos", same<"Acos">);
  r.add("acosh", same<"Acosh">);
  r.add("asin", same<"Asin">);
  r.add("asinh", same<"Asinh">);
  r.add("atan", same<"Atan">);
  r.add("atanh", same<"Atanh">);
  r.add("ceil", same<"Ceil">);
  r.add("cos", same<"Cos">);
  r.add("cosh", same<"Cosh">);
  r.add("erf", same<"Erf">);
  r.add("exp", same<"Exp">);
  r.add("floor", same<"Floor">);
  r.add("hardswish", same<"HardSwish">);
  r.add("isinf", same<"IsInf">);
  r.add("isnan", same<"IsNaN">);
  r.add("log", same<"Log">);
  r.add("mish", same<"Mish">);
  r.add("negative", same<"Neg">);
  r.add("reciprocal", same<"Reciprocal">);
  r.add("relu", same<"Relu">);
  r.add({"rint", "round"}, same<"Round">);
  r.add("selu", same<"Selu">);
  r.add({"sigmoid", "sigmoid_v2"}, same<"Sigmoid">);
  r.add("sign", same<"Sign">);
  r.add("sin", same<"Sin">);
  r.add("sinh", same<"Sinh">);
  r.add("softsign", same<"Softsign">);
  r.add("sqrt", same<"Sqrt">);
  r.add("tan", same<"Tan">);
  r.add("tanh", same<"Tanh">);
  // Placements on devices and in processes mean nothing here.
  r.add({"amp_black_identity", "amp_white_identity", "copy", "hierarchical_parallel_cast",
         "identity", "identity_buffer", "parallel_cast", "pinned_identity", "to_contiguous"},
        identity);
  r.add({"cast", "cast_like"}, cast);
  r.add("celu", celu);
  r.add("clip_by_scalar", clip);
  r.add("clip_by_scalar_max", clip_max);
  r.add("clip_by_scalar_min", clip_min);
  r.add("elu", elu);
  r.add("erfc", erfc);
  r.add("exp2", exp2);
  r.add("expm1", expm1);
  r.add("fast_gelu", fast_gelu);
  r.add("gelu", gelu);
  r.add("hardshrink", hardshrink);
  r.add("hardsigmoid", hardsigmoid);
  r.add("hardtanh", hardtanh);
  r.add("leaky_relu", leaky_relu);
  r.add("log1p", log1p);
  r.add("log2", log2);
  r.add("log_sigmoid", log_sigmoid);
  r.add("logical_not", logical_not);
  r.add("not_equal_zero", not_equal_zero);
  r.add("prelu", prelu);
  r.add("quick_gelu", quick_gelu);
  r.add("reciprocal_no_nan", reciprocal_no_nan);
  r.add("rsqrt", rsqrt);
  r.add("silu", silu);
  r.add("softplus", softplus);
  r.add("softshrink", softshrink);
  r.add("square", square);
  r.add("threshold", threshold);
  r.add("trunc", trunc);
}

}  // namespace xrt::oneflow
