// SPDX-License-Identifier: Apache-2.0
// Ops on one operand, activations and casts.
#include <cmath>
#include <limits>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;

template <UN kOp>
void unary(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.unary(c.in(0), kOp));
}

// Those that TensorRT also has for integers.
template <UN kOp>
void unary_number(NodeContext& c) {
  c.require_number(0);
  c.out(c.net.unary(c.in(0), kOp));
}

void logical_not(NodeContext& c) {
  c.need(c.dtype(0) == DType::kBool, "the operand is not bool");
  c.out(c.net.unary(c.in(0), UN::kNOT));
}

void is_nan(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.unary(c.in(0), UN::kISNAN));
}

void is_inf(NodeContext& c) {
  c.require_float(0);
  const bool negative = c.attr("detect_negative") != 0;
  const bool positive = c.attr("detect_positive") != 0;
  const Value x = c.in(0);
  const Value infinite = c.net.unary(x, UN::kISINF);
  if (negative && positive) {
    c.out(infinite);
  } else if (!negative && !positive) {
    c.out(c.net.binary(infinite, c.net.unary(infinite, UN::kNOT), EW::kAND));
  } else {
    c.out(c.net.binary(infinite, c.net.binary(x, 0.0, positive ? EW::kGREATER : EW::kLESS),
                       EW::kAND));
  }
}

void relu(NodeContext& c) {
  c.require_number(0);
  const Value x = c.in(0);
  c.out(is_integer(c.dtype(0)) ? c.net.binary(x, 0.0, EW::kMAX) : c.net.activation(x, ACT::kRELU));
}

template <ACT kType>
void activation(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), kType));
}

void leaky_relu(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), ACT::kLEAKY_RELU, need_float(c.node, "alpha")));
}

void elu(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), ACT::kELU, need_float(c.node, "alpha")));
}

void selu(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), ACT::kSELU, need_float(c.node, "alpha"),
                         need_float(c.node, "gamma")));
}

void softplus(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), ACT::kSOFTPLUS, 1.0F, 1.0F));
}

void hard_sigmoid(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), ACT::kHARD_SIGMOID, need_float(c.node, "alpha"),
                         need_float(c.node, "beta")));
}

void hard_swish(NodeContext& c) {
  c.require_float(0);
  const Value x = c.in(0);
  c.out(c.net.binary(x, c.net.activation(x, ACT::kHARD_SIGMOID, 1.0F / 6.0F, 0.5F), EW::kPROD));
}

void swish(NodeContext& c) {
  c.require_float(0);
  const Value x = c.in(0);
  const float alpha = need_float(c.node, "alpha");
  const Value scaled = alpha == 1.0F ? x : c.net.binary(x, alpha, EW::kPROD);
  c.out(c.net.binary(x, c.net.activation(scaled, ACT::kSIGMOID), EW::kPROD));
}

void mish(NodeContext& c) {
  c.require_float(0);
  const Value x = c.in(0);
  const Value soft = c.net.activation(x, ACT::kSOFTPLUS, 1.0F, 1.0F);
  c.out(c.net.binary(x, c.net.activation(soft, ACT::kTANH), EW::kPROD));
}

void thresholded_relu(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.activation(c.in(0), ACT::kTHRESHOLDED_RELU, need_float(c.node, "alpha")));
}

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
void celu(NodeContext& c) {
  c.require_float(0);
  const double alpha = need_float(c.node, "alpha");
  const Value x = c.in(0);
  const Value grown = c.net.unary(c.net.binary(x, alpha, EW::kDIV), UN::kEXP);
  const Value low = c.net.binary(c.net.binary(grown, 1.0, EW::kSUB), alpha, EW::kPROD);
  c.out(c.net.binary(c.net.binary(x, 0.0, EW::kMAX), c.net.binary(low, 0.0, EW::kMIN), EW::kSUM));
}

// 0.5 x (1 + erf(x / sqrt 2)), or its approximation by tanh
void gelu(NodeContext& c) {
  c.require_float(0);
  const Value x = c.in(0);
  if (need_string(c.node, "approximate") == "tanh") {
    c.out(c.net.activation(x, ACT::kGELU_TANH));
    return;
  }
  const Value e = c.net.unary(c.net.binary(x, kSqrtHalf, EW::kPROD), UN::kERF);
  const Value half = c.net.binary(x, 0.5, EW::kPROD);
  c.out(c.net.binary(half, c.net.binary(e, 1.0, EW::kSUM), EW::kPROD));
}

// x + bias below -lambd, x - bias above lambd, else 0
void shrink(NodeContext& c) {
  c.require_float(0);
  const double bias = need_float(c.node, "bias");
  const double lambd = need_float(c.node, "lambd");
  const Value x = c.in(0);
  const Value zero = c.net.scalar(c.dtype(0), 0.0, c.rank(0));
  const Value low =
      c.net.select(c.net.binary(x, -lambd, EW::kLESS), c.net.binary(x, bias, EW::kSUM), zero);
  c.out(c.net.select(c.net.binary(x, lambd, EW::kGREATER), c.net.binary(x, bias, EW::kSUB), low));
}

void clip(NodeContext& c) {
  c.require_number(0);
  Value x = c.in(0);
  // The order of the standard: where the bounds cross, the upper one wins.
  if (c.has(1)) x = c.net.binary(x, c.in(1), EW::kMAX);
  if (c.has(2)) x = c.net.binary(x, c.in(2), EW::kMIN);
  c.out(x);
}

void identity(NodeContext& c) {
  if (const Tensor* tensor = c.constant(0)) {
    c.out_constant(0, *tensor);
  } else {
    c.out(c.in(0));
  }
}

void dropout(NodeContext& c) {
  if (c.has(2)) {
    const Tensor* training = c.constant(2);
    c.need(training != nullptr && !*training->data<bool>(), "it may be in training mode");
  }
  const Value x = c.in(0);
  c.out(0, x);
  if (c.wants(1)) {  // every element is kept
    const Dims dims = c.require_static(0, "the mask");
    c.out(1, c.net.expand(c.net.scalar(DType::kBool, 1), dims));
  }
}

void cast_to(NodeContext& c, DType to) {
  c.require_computed(c.dtype(0));
  c.require_computed(to);
  c.out(c.net.cast(c.in(0), to));
}

void cast(NodeContext& c) { cast_to(c, static_cast<DType>(c.attr("to"))); }
void cast_like(NodeContext& c) { cast_to(c, c.dtype(1)); }

}  // namespace

void register_unary(LoweringTable& t) {
  t.add("Exp", unary<UN::kEXP>);
  t.add("Log", unary<UN::kLOG>);
  t.add("Sqrt", unary<UN::kSQRT>);
  t.add("Reciprocal", unary<UN::kRECIP>);
  t.add("Abs", unary_number<UN::kABS>);
  t.add("Neg", unary_number<UN::kNEG>);
  t.add("Sign", unary_number<UN::kSIGN>);
  t.add("Sin", unary<UN::kSIN>);
  t.add("Cos", unary<UN::kCOS>);
  t.add("Tan", unary<UN::kTAN>);
  t.add("Sinh", unary<UN::kSINH>);
  t.add("Cosh", unary<UN::kCOSH>);
  t.add("Asin", unary<UN::kASIN>);
  t.add("Acos", unary<UN::kACOS>);
  t.add("Atan", unary<UN::kATAN>);
  t.add("Asinh", unary<UN::kASINH>);
  t.add("Acosh", unary<UN::kACOSH>);
  t.add("Atanh", unary<UN::kATANH>);
  t.add("Ceil", unary<UN::kCEIL>);
  t.add("Floor", unary<UN::kFLOOR>);
  t.add("Round", unary<UN::kROUND>);
  t.add("Erf", unary<UN::kERF>);
  t.add("Not", logical_not);
  t.add("IsNaN", is_nan);
  t.add("IsInf", is_inf);
  t.add("Relu", relu);
  t.add("Sigmoid", activation<ACT::kSIGMOID>);
  t.add("Tanh", activation<ACT::kTANH>);
  t.add("Softsign", activation<ACT::kSOFTSIGN>);
  t.add("LeakyRelu", leaky_relu);
  t.add("Elu", elu);
  t.add("Selu", selu);
  t.add("Softplus", softplus);
  t.add("HardSigmoid", hard_sigmoid);
  t.add("HardSwish", hard_swish);
  t.add("Swish", swish);
  t.add("Mish", mish);
  t.add("ThresholdedRelu", thresholded_relu);
  t.add("Celu", celu);
  t.add("Gelu", gelu);
  t.add("Shrink", shrink);
  t.add("Clip", clip);
  t.add("Identity", identity);
  t.add("Dropout", dropout);
  t.add("Cast", cast);
  t.add("CastLike", cast_like);
}

}  // namespace xrt::tensorrt
