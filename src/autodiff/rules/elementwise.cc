// SPDX-License-Identifier: Apache-2.0
// Arithmetic, powers, trigonometry, rounding, comparisons, selection.
#include <cmath>
#include <numbers>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

void add_rule(Rule& r) {
  r.give_broadcast(0, r.dy());
  r.give_broadcast(1, r.dy());
}

void sub_rule(Rule& r) {
  r.give_broadcast(0, r.dy());
  if (r.needs(1)) r.give_broadcast(1, -r.dy());
}

void mul_rule(Rule& r) {
  if (r.needs(0)) r.give_broadcast(0, r.dy() * r.x(1));
  if (r.needs(1)) r.give_broadcast(1, r.dy() * r.x(0));
}

void div_rule(Rule& r) {
  const Var scaled = r.dy() / r.x(1);
  if (r.needs(0)) r.give_broadcast(0, scaled);
  if (r.needs(1)) r.give_broadcast(1, -(scaled * r.y()));
}

// x mod y = x - floor(x / y) * y; fmod rounds the quotient towards zero.
void mod_rule(Rule& r) {
  r.give_broadcast(0, r.dy());
  if (!r.needs(1)) return;
  const Var whole = (r.x(0) - r.y()) / r.x(1);
  r.give_broadcast(1, -(r.dy() * r.e.op("Round", {whole})));
}

void pow_rule(Rule& r) {
  const Var x = r.x(0);
  const Var p = cast(r.x(1), x.dtype);
  if (r.needs(0)) {
    const Tensor* constant = r.e.graph().constant(r.node.input(1));
    if (constant != nullptr && constant->count() == 1 && constant->dtype() == DType::kFloat32) {
      const double power = *constant->data<float>();
      if (power == 2) {
        r.give_broadcast(0, r.dy() * x * 2.0);
      } else if (power == 1) {
        r.give_broadcast(0, r.dy());
      } else {
        r.give_broadcast(0, r.dy() * pow(x, power - 1) * power);
      }
    } else {
      // 0 ^ -1 must not come into the product where the power is 0.
      const Var slope = p * x.e->op("Pow", {x, p - 1.0});
      r.give_broadcast(0, r.dy() * masked(negate(equal(p, x.e->scalar(0, x.dtype))), slope));
    }
  }
  if (r.needs(1)) {
    const Var zero = equal(x, x.e->scalar(0, x.dtype));
    const Var safe = where(zero, x.e->scalar(1, x.dtype), x);
    r.give_broadcast(1, cast(masked(negate(zero), r.dy() * r.y() * log(safe)), r.x(1).dtype));
  }
}

void neg_rule(Rule& r) { r.give(0, -r.dy()); }
void abs_rule(Rule& r) { r.give(0, r.dy() * sign(r.x())); }
void exp_rule(Rule& r) { r.give(0, r.dy() * r.y()); }
void log_rule(Rule& r) { r.give(0, r.dy() / r.x()); }
void sqrt_rule(Rule& r) { r.give(0, r.dy() * 0.5 / r.y()); }
void reciprocal_rule(Rule& r) { r.give(0, -(r.dy() * square(r.y()))); }

void sin_rule(Rule& r) { r.give(0, r.dy() * r.e.op("Cos", {r.x()})); }
void cos_rule(Rule& r) { r.give(0, -(r.dy() * r.e.op("Sin", {r.x()}))); }
void tan_rule(Rule& r) { r.give(0, r.dy() * (square(r.y()) + 1.0)); }
void asin_rule(Rule& r) { r.give(0, r.dy() / sqrt(1.0 - square(r.x()))); }
void acos_rule(Rule& r) { r.give(0, -(r.dy() / sqrt(1.0 - square(r.x())))); }
void atan_rule(Rule& r) { r.give(0, r.dy() / (square(r.x()) + 1.0)); }
void sinh_rule(Rule& r) { r.give(0, r.dy() * r.e.op("Cosh", {r.x()})); }
void cosh_rule(Rule& r) { r.give(0, r.dy() * r.e.op("Sinh", {r.x()})); }
void tanh_rule(Rule& r) { r.give(0, r.dy() * (1.0 - square(r.y()))); }
void asinh_rule(Rule& r) { r.give(0, r.dy() / sqrt(square(r.x()) + 1.0)); }
void acosh_rule(Rule& r) { r.give(0, r.dy() / sqrt(square(r.x()) - 1.0)); }
void atanh_rule(Rule& r) { r.give(0, r.dy() / (1.0 - square(r.x()))); }

void erf_rule(Rule& r) {
  r.give(0, r.dy() * exp(-square(r.x())) * (2.0 / std::sqrt(std::numbers::pi)));
}

// The gradient goes to the operand that was taken; equal ones share it.
void extreme_rule(Rule& r) {
  const std::size_t n = r.input_count();
  if (n == 1) return r.give(0, r.dy());
  std::vector<Var> taken;
  Var count;
  for (std::size_t i = 0; i < n; ++i) {
    taken.push_back(cast(equal(r.x(i), r.y()), r.y().dtype));
    count = i == 0 ? taken[0] : count + taken[i];
  }
  const Var share = r.dy() / count;
  for (std::size_t i = 0; i < n; ++i) {
    if (r.needs(i)) r.give_broadcast(i, share * taken[i]);
  }
}

void sum_rule(Rule& r) {
  for (std::size_t i = 0; i < r.input_count(); ++i) r.give_broadcast(i, r.dy());
}

void mean_rule(Rule& r) {
  const Var share = r.dy() / static_cast<double>(r.input_count());
  for (std::size_t i = 0; i < r.input_count(); ++i) r.give_broadcast(i, share);
}

void where_rule(Rule& r) {
  if (r.needs(1)) r.give_broadcast(1, masked(r.x(0), r.dy()));
  if (r.needs(2)) {
    r.give_broadcast(2, where(r.x(0), r.e.scalar(0, r.dy().dtype), r.dy()));
  }
}

// As PyTorch's clamp: the bounds themselves pass the gradient on; a bound gets what it cut off.
void clip_rule(Rule& r) {
  const Var x = r.x();
  if (r.needs(0)) {
    Var g = r.dy();
    if (r.has(1)) g = masked(greater_equal(x, r.x(1)), g);
    if (r.has(2)) g = masked(less_equal(x, r.x(2)), g);
    r.give(0, g);
  }
  if (r.needs(1)) {
    r.give(1, r.sum_to(masked(less(x, r.x(1)), r.dy()), r.y_type(), r.x_type(1), r.x(1)));
  }
  if (r.needs(2)) {
    r.give(2, r.sum_to(masked(greater(x, r.x(2)), r.dy()), r.y_type(), r.x_type(2), r.x(2)));
  }
}

void cast_rule(Rule& r) { r.give(0, cast(r.dy(), r.x().dtype)); }
void identity_rule(Rule& r) { r.give(0, r.dy()); }

}  // namespace

void register_elementwise(RuleRegistry& registry) {
  registry.add("Add", add_rule);
  registry.add("Sub", sub_rule);
  registry.add("Mul", mul_rule);
  registry.add("Div", div_rule);
  registry.add("Mod", mod_rule);
  registry.add("Pow", pow_rule);
  registry.add("Neg", neg_rule);
  registry.add("Abs", abs_rule);
  registry.add("Exp", exp_rule);
  registry.add("Log", log_rule);
  registry.add("Sqrt", sqrt_rule);
  registry.add("Reciprocal", reciprocal_rule);
  registry.add("Sin", sin_rule);
  registry.add("Cos", cos_rule);
  registry.add("Tan", tan_rule);
  registry.add("Asin", asin_rule);
  registry.add("Acos", acos_rule);
  registry.add("Atan", atan_rule);
  registry.add("Sinh", sinh_rule);
  registry.add("Cosh", cosh_rule);
  registry.add("Tanh", tanh_rule);
  registry.add("Asinh", asinh_rule);
  registry.add("Acosh", acosh_rule);
  registry.add("Atanh", atanh_rule);
  registry.add("Erf", erf_rule);
  registry.add("Max", extreme_rule);
  registry.add("Min", extreme_rule);
  registry.add("Sum", sum_rule);
  registry.add("Mean", mean_rule);
  registry.add("Where", where_rule, inputs({1, 2}));
  registry.add("Clip", clip_rule);
  registry.add("Cast", cast_rule);
  registry.add("CastLike", cast_rule, inputs({0}));
  registry.add("Identity", identity_rule);
  for (const char* op : {"And",
                         "ArgMax",
                         "ArgMin",
                         "BitShift",
                         "BitwiseAnd",
                         "BitwiseNot",
                         "BitwiseOr",
                         "BitwiseXor",
                         "Ceil",
                         "Constant",
                         "ConstantOfShape",
                         "Equal",
                         "EyeLike",
                         "Floor",
                         "Greater",
                         "GreaterOrEqual",
                         "Hardmax",
                         "IsInf",
                         "IsNaN",
                         "Less",
                         "LessOrEqual",
                         "NonMaxSuppression",
                         "NonZero",
                         "Not",
                         "OneHot",
                         "Or",
                         "RandomNormalLike",
                         "RandomUniformLike",
                         "Bernoulli",
                         "Multinomial",
                         "Range",
                         "Round",
                         "Shape",
                         "Sign",
                         "Size",
                         "Xor"}) {
    registry.add_zero(op);
  }
}

}  // namespace xrt::autodiff
