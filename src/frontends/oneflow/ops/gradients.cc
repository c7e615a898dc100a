// SPDX-License-Identifier: Apache-2.0
// Gradients of ops that work element by element. Most take the op's input (or, where a comment says
// so, its output) and the gradient of the output.
#include <cmath>
#include <numbers>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

ValueId one(Lowering& l) { return l.scalar(1, l.dtype()); }
ValueId zero(Lowering& l) { return l.scalar(0, l.dtype()); }
ValueId num(Lowering& l, Number number) { return l.scalar(number, l.dtype()); }
ValueId square_of(Lowering& l, ValueId x) { return l.mul(x, x); }
ValueId sigmoid_of(Lowering& l, ValueId x) { return l.op("Sigmoid", {x}); }
ValueId above(Lowering& l, ValueId x, double bound) { return l.op("Greater", {x, num(l, bound)}); }
ValueId below(Lowering& l, ValueId x, double bound) { return l.op("Less", {x, num(l, bound)}); }

// dy times a derivative.
void chain(Lowering& l, ValueId derivative) { l.result(0, l.mul(l.in(1), derivative)); }

// dy where `condition`, else 0.
void gate(Lowering& l, ValueId condition) { l.result(0, l.where(condition, l.in(1), zero(l))); }

void relu_grad(Lowering& l) { gate(l, above(l, l.in(), 0)); }  // of the output

void sigmoid_grad(Lowering& l) {  // of the output
  chain(l, l.mul(l.in(), l.sub(one(l), l.in())));
}

void sigmoid_v2_grad(Lowering& l) {
  const ValueId s = sigmoid_of(l, l.in());
  chain(l, l.mul(s, l.sub(one(l), s)));
}

void tanh_grad(Lowering& l) { chain(l, l.sub(one(l), square_of(l, l.op("Tanh", {l.in()})))); }

// Φ(x) + x φ(x)
void gelu_grad(Lowering& l) {
  const ValueId x = l.in();
  const ValueId cdf =
      l.mul(num(l, 0.5), l.add(one(l), l.op("Erf", {l.mul(x, num(l, std::numbers::sqrt2 / 2))})));
  const ValueId bell = l.op("Exp", {l.mul(square_of(l, x), num(l, -0.5))});
  const ValueId density = l.mul(bell, num(l, std::numbers::inv_sqrtpi / std::numbers::sqrt2));
  chain(l, l.add(cdf, l.mul(x, density)));
}

// Of x (1 + tanh u) / 2 with u = sqrt(2/π) (x + 0.044715 x³).
void fast_gelu_grad(Lowering& l) {
  const double alpha = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, beta = 0.044715;
  const ValueId x = l.in(), squared = square_of(l, x);
  const ValueId u = l.mul(l.mul(x, num(l, alpha)), l.add(one(l), l.mul(squared, num(l, beta))));
  const ValueId t = l.op("Tanh", {u});
  const ValueId du = l.mul(num(l, alpha), l.add(one(l), l.mul(squared, num(l, 3 * beta))));
  const ValueId inner = l.mul(l.mul(x, l.sub(one(l), square_of(l, t))), du);
  chain(l, l.mul(num(l, 0.5), l.add(l.add(one(l), t), inner)));
}

void quick_gelu_grad(Lowering& l) {
  const ValueId s = sigmoid_of(l, l.mul(l.in(), num(l, 1.702)));
  const ValueId slope = l.mul(l.mul(l.in(), num(l, 1.702)), l.mul(s, l.sub(one(l), s)));
  chain(l, l.add(s, slope));
}

void silu_grad(Lowering& l) {
  const ValueId s = sigmoid_of(l, l.in());
  chain(l, l.mul(s, l.add(one(l), l.mul(l.in(), l.sub(one(l), s)))));
}

void mish_grad(Lowering& l) {
  const ValueId t = l.op("Tanh", {l.op("Softplus", {l.in()})});
  const ValueId slope = l.mul(l.sub(one(l), square_of(l, t)), sigmoid_of(l, l.in()));
  chain(l, l.add(t, l.mul(l.in(), slope)));
}

void hardswish_grad(Lowering& l) {
  const ValueId inner = l.add(l.div(l.in(), num(l, 3)), num(l, 0.5));
  const ValueId upper = l.where(above(l, l.in(), 3), one(l), inner);
  chain(l, l.where(below(l, l.in(), -3), zero(l), upper));
}

void hardsigmoid_grad(Lowering& l) {
  const ValueId inside = l.op("And", {above(l, l.in(), -3), below(l, l.in(), 3)});
  l.result(0, l.where(inside, l.div(l.in(1), num(l, 6)), zero(l)));
}

void hardtanh_grad(Lowering& l) {  // of the output
  gate(l, l.op("And", {above(l, l.in(), l.real("min_val")), below(l, l.in(), l.real("max_val"))}));
}

void elu_grad(Lowering& l) {
  const ValueId negative = l.mul(l.op("Exp", {l.in()}), num(l, l.real("alpha", 1)));
  chain(l, l.where(above(l, l.in(), 0), one(l), negative));
}

void celu_grad(Lowering& l) {
  const ValueId negative = l.op("Exp", {l.div(l.in(), num(l, l.real("alpha", 1)))});
  chain(l, l.where(above(l, l.in(), 0), one(l), negative));
}

void selu_grad(Lowering& l) {
  const double alpha = 1.6732632423543772, scale = 1.0507009873554805;
  const ValueId negative = l.mul(l.op("Exp", {l.in()}), num(l, alpha * scale));
  chain(l, l.where(above(l, l.in(), 0), num(l, scale), negative));
}

void leaky_relu_grad(Lowering& l) {
  chain(l, l.where(above(l, l.in(), 0), one(l), num(l, l.real("alpha"))));
}

void softplus_grad(Lowering& l) {
  const ValueId scaled = l.mul(l.in(), num(l, l.real("beta", 1)));
  chain(l, l.where(above(l, scaled, l.real("threshold", 20)), one(l), sigmoid_of(l, scaled)));
}

void softsign_grad(Lowering& l) {
  const ValueId wide = l.add(one(l), l.op("Abs", {l.in()}));
  chain(l, l.op("Reciprocal", {square_of(l, wide)}));
}

void log_sigmoid_grad(Lowering& l) { chain(l, sigmoid_of(l, l.op("Neg", {l.in()}))); }
void exp_grad(Lowering& l) { chain(l, l.op("Exp", {l.in()})); }
void expm1_grad(Lowering& l) { chain(l, l.op("Exp", {l.in()})); }
void log_grad(Lowering& l) { l.result(0, l.div(l.in(1), l.in())); }
void log1p_grad(Lowering& l) { l.result(0, l.div(l.in(1), l.add(one(l), l.in()))); }

void log2_grad(Lowering& l) {
  l.result(0, l.div(l.in(1), l.mul(l.in(), num(l, std::numbers::ln2))));
}

void exp2_grad(Lowering& l) {
  const ValueId power = l.op("Exp", {l.mul(l.in(), num(l, std::numbers::ln2))});
  chain(l, l.mul(power, num(l, std::numbers::ln2)));
}

void sqrt_grad(Lowering& l) {
  l.result(0, l.div(l.mul(l.in(1), num(l, 0.5)), l.op("Sqrt", {l.in()})));
}

void rsqrt_grad(Lowering& l) {
  const ValueId root = l.op("Sqrt", {l.in()});
  l.result(0, l.div(l.mul(l.in(1), num(l, -0.5)), l.mul(l.in(), root)));
}

void square_grad(Lowering& l) { chain(l, l.mul(l.in(), num(l, 2))); }
void abs_grad(Lowering& l) { chain(l, l.op("Sign", {l.in()})); }

void erf_grad(Lowering& l) {
  const ValueId bell = l.op("Exp", {l.op("Neg", {square_of(l, l.in())})});
  chain(l, l.mul(bell, num(l, 2 * std::numbers::inv_sqrtpi)));
}

void erfc_grad(Lowering& l) {
  const ValueId bell = l.op("Exp", {l.op("Neg", {square_of(l, l.in())})});
  chain(l, l.mul(bell, num(l, -2 * std::numbers::inv_sqrtpi)));
}

void sin_grad(Lowering& l) { chain(l, l.op("Cos", {l.in()})); }
void cos_grad(Lowering& l) { chain(l, l.op("Neg", {l.op("Sin", {l.in()})})); }
void sinh_grad(Lowering& l) { chain(l, l.op("Cosh", {l.in()})); }
void cosh_grad(Lowering& l) { chain(l, l.op("Sinh", {l.in()})); }

void tan_grad(Lowering& l) { l.result(0, l.div(l.in(1), square_of(l, l.op("Cos", {l.in()})))); }

void asinh_grad(Lowering& l) {
  l.result(0, l.div(l.in(1), l.op("Sqrt", {l.add(one(l), square_of(l, l.in()))})));
}

void acosh_grad(Lowering& l) {
  l.result(0, l.div(l.in(1), l.op("Sqrt", {l.sub(square_of(l, l.in()), one(l))})));
}

void atanh_grad(Lowering& l) { l.result(0, l.div(l.in(1), l.sub(one(l), square_of(l, l.in())))); }

void atan_grad(Lowering& l) { l.result(0, l.div(l.in(1), l.add(one(l), square_of(l, l.in())))); }

void asin_grad(Lowering& l) {
  l.result(0, l.div(l.in(1), l.op("Sqrt", {l.sub(one(l), square_of(l, l.in()))})));
}

void acos_grad(Lowering& l) {
  const ValueId root = l.op("Sqrt", {l.sub(one(l), square_of(l, l.in()))});
  l.result(0, l.op("Neg", {l.div(l.in(1), root)}));
}

void reciprocal_grad(Lowering& l) {
  l.result(0, l.op("Neg", {l.div(l.in(1), square_of(l, l.in()))}));
}

void negative_grad(Lowering& l) { l.result(0, l.op("Neg", {l.in(1)})); }

// y, dy: the gradient passes where the op's result is not 0.
void shrink_grad(Lowering& l) { gate(l, l.op("Not", {l.op("Equal", {l.in(), zero(l)})})); }

void threshold_grad(Lowering& l) { gate(l, above(l, l.in(), l.real("threshold_val"))); }

double operand_number(const Lowering& l) {
  return l.flag("has_int_operand") ? static_cast<double>(l.integer("int_operand"))
                                   : l.real("float_operand");
}

void scalar_pow_grad(Lowering& l) {
  const double exponent = operand_number(l);
  if (exponent == 2) return chain(l, l.mul(l.in(), num(l, 2)));
  const ValueId power = l.op("Pow", {l.in(), num(l, exponent - 1)});
  chain(l, l.mul(power, num(l, exponent)));
}

// Of number^x.
void scalar_reverse_pow_grad(Lowering& l) {
  const double base = operand_number(l);
  const ValueId power = l.op("Pow", {num(l, base), l.in()});
  chain(l, l.mul(power, num(l, std::log(base))));
}

// x, y, dz: of x^y
void pow_x_grad(Lowering& l) {
  const ValueId power = l.op("Pow", {l.in(0), l.sub(l.in(1), one(l))});
  l.result(0, l.mul(l.in(2), l.mul(l.in(1), power)));
}

void pow_y_grad(Lowering& l) {
  const ValueId slope = l.mul(l.op("Pow", {l.in(0), l.in(1)}), l.op("Log", {l.in(0)}));
  // Where x is 0, so is the gradient.
  const ValueId positive = above(l, l.in(0), 0);
  l.result(0, l.where(positive, l.mul(l.in(2), slope), zero(l)));
}

// A gradient summed over the axes along which its operand was spread.
ValueId reduced_to(Lowering& l, ValueId x, const Dims& from, const Dims& to) {
  std::vector<std::int64_t> axes;
  if (to.size() > from.size()) l.invalid("an operand has more dimensions than the result");
  const std::size_t extra = from.size() - to.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i < extra || to[i - extra] != from[i]) axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes.empty() ? x : l.reshape(l.reduce("ReduceSum", x, axes, false), to);
}

// y, z, dz: of y in z = x / y
void broadcast_div_grad(Lowering& l) {
  const ValueId dy = l.op("Neg", {l.div(l.mul(l.in(1), l.in(2)), l.in(0))});
  l.result(0, reduced_to(l, dy, l.dims(2), l.dims(0)));
}

// dz, x, y → dx, dy
void chosen(Lowering& l, const char* comparison) {
  const ValueId first = l.op(comparison, {l.in(1), l.in(2)});
  l.result(0, l.where(first, l.in(0), zero(l)));
  l.result(1, l.where(first, zero(l), l.in(0)));
}

void maximum_grad(Lowering& l) { chosen(l, "Greater"); }
void minimum_grad(Lowering& l) { chosen(l, "Less"); }

Number bound_number(const Lowering& l, const char* floating, const char* integral) {
  if (is_floating(l.dtype())) return l.real(floating);
  return l.integer(integral);
}

// dy, x: the gradient passes where x was not clipped.
void clip_grad(Lowering& l) {
  const ValueId inside = l.op(
      "And",
      {l.op("GreaterOrEqual", {l.in(1), num(l, bound_number(l, "floating_min", "integral_min"))}),
       l.op("LessOrEqual", {l.in(1), num(l, bound_number(l, "floating_max", "integral_max"))})});
  l.result(0, l.where(inside, l.in(0), zero(l)));
}

void clip_min_grad(Lowering& l) {
  const ValueId inside =
      l.op("GreaterOrEqual", {l.in(1), num(l, bound_number(l, "floating_min", "integral_min"))});
  l.result(0, l.where(inside, l.in(0), zero(l)));
}

void clip_max_grad(Lowering& l) {
  const ValueId inside =
      l.op("LessOrEqual", {l.in(1), num(l, bound_number(l, "floating_max", "integral_max"))});
  l.result(0, l.where(inside, l.in(0), zero(l)));
}

// dy, x, alpha → dx, alpha_diff: one slope, or one per channel.
void prelu_grad(Lowering& l) {
  const Dims x = l.dims(1), alpha = l.dims(2);
  Dims wide(x.size(), 1);
  if (alpha.size() == 1 && alpha[0] > 1 && x.size() > 1) wide[1] = alpha[0];
  const ValueId negative = l.op("Less", {l.in(1), zero(l)});
  l.result(0, l.where(negative, l.mul(l.in(0), l.reshape(l.in(2), wide)), l.in(0)));
  const ValueId part = l.where(negative, l.mul(l.in(0), l.in(1)), zero(l));
  l.result(1, l.reshape(reduced_to(l, part, x, wide), alpha));
}

// dy, then the tensors that were stacked
void stack_grad(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("axis"), l.rank());
  const auto count = static_cast<std::int64_t>(l.results());
  const auto parts = l.ops("Split", {l.in(0), l.ints(std::vector<std::int64_t>(l.results(), 1))},
                           l.results(), {{"axis", axis}});
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    l.result(at, l.op("Squeeze", {parts[at], l.ints({axis})}));
  }
}

// x → y, the sum of squares
void l2_normalize(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("axis"), l.rank());
  const ValueId sum = l.reduce("ReduceSumSquare", l.in(), {axis}, true);
  const ValueId bounded = l.op("Max", {sum, num(l, l.real("epsilon"))});
  l.result(0, l.div(l.in(), l.op("Sqrt", {bounded})));
  l.result(1, sum);
}

// dy, y, the sum of squares
void l2_normalize_grad(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("axis"), l.rank());
  const ValueId norm = l.op("Sqrt", {l.op("Max", {l.in(2), num(l, l.real("epsilon"))})});
  const ValueId along = l.reduce("ReduceSum", l.mul(l.in(0), l.in(1)), {axis}, true);
  l.result(0, l.div(l.sub(l.in(0), l.mul(l.in(1), along)), norm));
}

}  // namespace

void register_gradients(Registry& r) {
  r.add("abs_grad", abs_grad);
  r.add("acos_grad", acos_grad);
  r.add("asin_grad", asin_grad);
  r.add("atan_grad", atan_grad);
  r.add("acosh_grad", acosh_grad);
  r.add("asinh_grad", asinh_grad);
  r.add("atanh_grad", atanh_grad);
  r.add("broadcast_div_grad", broadcast_div_grad);
  r.add("celu_grad", celu_grad);
  r.add("clip_by_scalar_grad", clip_grad);
  r.add("clip_by_scalar_max_grad", clip_max_grad);
  r.add("clip_by_scalar_min_grad", clip_min_grad);
  r.add("cos_grad", cos_grad);
  r.add("cosh_grad", cosh_grad);
  r.add("elementwise_maximum_backward", maximum_grad);
  r.add("elementwise_minimum_backward", minimum_grad);
  r.add("elu_grad", elu_grad);
  r.add("erf_grad", erf_grad);
  r.add("erfc_grad", erfc_grad);
  r.add("exp2_grad", exp2_grad);
  r.add("exp_grad", exp_grad);
  r.add("expm1_grad", expm1_grad);
  r.add("fast_gelu_grad", fast_gelu_grad);
  r.add("gelu_grad", gelu_grad);
  r.add("hardsigmoid_grad", hardsigmoid_grad);
  r.add("hardswish_grad", hardswish_grad);
  r.add("hardtanh_grad", hardtanh_grad);
  r.add("l2_normalize", l2_normalize);
  r.add("l2_normalize_grad", l2_normalize_grad);
  r.add("leaky_relu_grad", leaky_relu_grad);
  r.add("log1p_grad", log1p_grad);
  r.add("log2_grad", log2_grad);
  r.add("log_grad", log_grad);
  r.add("log_sigmoid_grad", log_sigmoid_grad);
  r.add("mish_grad", mish_grad);
  r.add("negative_grad", negative_grad);
  r.add("pow_x_grad", pow_x_grad);
  r.add("pow_y_grad", pow_y_grad);
  r.add("prelu_grad", prelu_grad);
  r.add("quick_gelu_grad", quick_gelu_grad);
  r.add("reciprocal_grad", reciprocal_grad);
  r.add("relu_grad", relu_grad);
  r.add("rsqrt_grad", rsqrt_grad);
  r.add("scalar_pow_grad", scalar_pow_grad);
  r.add("scalar_reverse_pow_grad", scalar_reverse_pow_grad);
  r.add("selu_grad", selu_grad);
  r.add("sigmoid_grad", sigmoid_grad);
  r.add("sigmoid_v2_grad", sigmoid_v2_grad);
  r.add("silu_grad", silu_grad);
  r.add("sin_grad", sin_grad);
  r.add("sinh_grad", sinh_grad);
  r.add({"hardshrink_grad", "softshrink_grad"}, shrink_grad);
  r.add("softplus_grad", softplus_grad);
  r.add("softsign_grad", softsign_grad);
  r.add("sqrt_grad", sqrt_grad);
  r.add("square_grad", square_grad);
  r.add("stack_grad", stack_grad);
  r.add("tan_grad", tan_grad);
  r.add("tanh_grad", tanh_grad);
  r.add("threshold_grad", threshold_grad);
}

}  // namespace xrt::oneflow
