// SPDX-License-Identifier: Apache-2.0
// Arithmetic and activation functions, one number at a time.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "engines/xla/lowering.h"

namespace xrt::xla {

DType compute_dtype(DType dtype) {
  const bool small = is_floating(dtype) && bit_width(dtype) <= 16;
  return small ? DType::kFloat32 : dtype;
}

Hlo safe_divide(HloBuilder& b, const Hlo& a, const Hlo& divisor) {
  if (!is_integer(a.dtype)) return b.div(a, divisor);
  // A division by zero is undefined in ONNX; it must not stop the process.
  const Hlo zero = b.zeros_like(divisor);
  const Hlo one = b.splat(1, divisor.dtype, divisor.dims);
  return b.div(a, b.select(b.compare("EQ", divisor, zero), one, divisor));
}

namespace {

using Unary = std::function<Hlo(HloBuilder&, const Hlo&)>;

// Runs `make` in float32 where the operand is a 16-bit float (or narrower).
void unary(NodeContext& c, const Unary& make) {
  c.elementwise({0}, [&](const Hlos& x) {
    const DType dtype = compute_dtype(x[0].dtype);
    return c.b.convert(make(c.b, c.b.convert(x[0], dtype)), x[0].dtype);
  });
}

void variadic(NodeContext& c, std::string_view op) {
  c.elementwise([&](const Hlos& x) {
    Hlo total = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) total = c.b.binary(op, total, x[i]);
    return total;
  });
}

void binary(NodeContext& c, std::string_view op) {
  c.elementwise({0, 1}, [&](const Hlos& x) { return c.b.binary(op, x[0], x[1]); });
}

Hlo sigmoid(HloBuilder& b, const Hlo& x) { return b.unary("logistic", x); }

Hlo scalar_like(HloBuilder& b, double value, const Hlo& x) {
  return b.splat(value, x.dtype, x.dims);
}

// log(1 + e^x), without overflow.
Hlo softplus(HloBuilder& b, const Hlo& x) {
  const Hlo zero = b.zeros_like(x);
  const Hlo small = b.unary("exponential", b.unary("negate", b.unary("abs", x)));
  return b.add(b.maximum(x, zero), b.unary("log_plus_one", small));
}

void lower_sub(NodeContext& c) { binary(c, "subtract"); }
void lower_add(NodeContext& c) { binary(c, "add"); }
void lower_mul(NodeContext& c) { binary(c, "multiply"); }
void lower_div(NodeContext& c) {
  // XLA multiplies by the rounded inverse of a constant. Scales of quantisation are single numbers,
  // and half way between two levels the last bit shows in all that is rounded with them.
  if (c.dtype(0) == DType::kFloat32 && c.rank(0) == 0 && c.rank(1) == 0) {
    HloBuilder& b = c.b;
    const Hlo x = b.convert(c.in(0), DType::kFloat64), y = b.convert(c.in(1), DType::kFloat64);
    c.out(b.convert(b.div(x, y), DType::kFloat32));
    return;
  }
  c.elementwise({0, 1}, [&](const Hlos& x) { return safe_divide(c.b, x[0], x[1]); });
}

void lower_sum(NodeContext& c) { variadic(c, "add"); }
void extrema(NodeContext& c, std::string_view op) {
  c.elementwise([&](const Hlos& x) {
    Hlo total = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) total = extremum(c.b, op, total, x[i]);
    return total;
  });
}
void lower_max(NodeContext& c) { extrema(c, "maximum"); }
void lower_min(NodeContext& c) { extrema(c, "minimum"); }
void lower_mean(NodeContext& c) {
  c.elementwise([&](const Hlos& x) {
    Hlo total = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) total = c.b.add(total, x[i]);
    return c.b.binary_scalar("divide", total, static_cast<double>(x.size()));
  });
}

// fmod = 1: the sign of the dividend; else, for integers, the sign of the divisor.
void lower_mod(NodeContext& c) {
  const bool fmod = c.attr("fmod") != 0;
  c.elementwise({0, 1}, [&](const Hlos& x) {
    HloBuilder& b = c.b;
    Hlo divisor = x[1];
    const Hlo zero = b.zeros_like(divisor);
    if (is_integer(divisor.dtype)) {
      divisor = b.select(b.compare("EQ", divisor, zero), b.splat(1, divisor.dtype, divisor.dims),
                         divisor);
    }
    const Hlo remainder = b.binary("remainder", x[0], divisor);
    if (fmod || (is_integer(divisor.dtype) && !is_signed_integer(divisor.dtype))) return remainder;
    const Hlo nonzero = b.compare("NE", remainder, zero);
    const Hlo signs =
        b.compare("NE", b.compare("LT", remainder, zero), b.compare("LT", divisor, zero));
    return b.select(b.binary("and", nonzero, signs), b.add(remainder, divisor), remainder);
  });
}

// Of two integers, by squares, modulo the base's width. XLA's own looks at six bits of the
// exponent.
Hlo integer_power(HloBuilder& b, const Hlo& base, const Hlo& exponent) {
  const auto same = [&](double value, const Hlo& x) { return b.splat(value, x.dtype, x.dims); };
  const auto is_odd = [&](const Hlo& x) {
    return b.compare("NE", b.binary("and", x, same(1, x)), same(0, x));
  };
  const bool is_signed = is_signed_integer(exponent.dtype);
  const int bits = bit_width(exponent.dtype) - (is_signed ? 1 : 0);
  // The bit to look at, what is left of the exponent, the square that it stands for, the product.
  const Hlos ended = b.while_loop(
      {b.scalar(0, DType::kInt64), exponent, base, same(1, base)},
      [&](const Hlos& now) { return b.compare("LT", now[0], b.scalar(bits, DType::kInt64)); },
      [&](const Hlos& now) {
        const Hlo product = b.select(is_odd(now[1]), b.mul(now[3], now[2]), now[3]);
        return Hlos{b.binary_scalar("add", now[0], 1),
                    b.binary("shift_right_logical", now[1], same(1, exponent)),
                    b.mul(now[2], now[2]), product};
      });
  if (!is_signed) return ended[3];
  // 1 over it: of 1 and -1 alone that is no fraction.
  Hlo inverse = b.select(b.compare("EQ", base, same(1, base)), same(1, base), same(0, base));
  if (is_signed_integer(base.dtype)) {
    const Hlo sign = b.select(is_odd(exponent), same(-1, base), same(1, base));
    inverse = b.select(b.compare("EQ", base, same(-1, base)), sign, inverse);
  }
  return b.select(b.compare("LT", exponent, same(0, exponent)), inverse, ended[3]);
}

// Whether XLA's own power is right: all exponents are from 0 to 63.
bool has_few_bits(const std::optional<Tensor>& exponents) {
  if (!exponents || !is_integer(exponents->dtype())) return false;
  const std::vector<std::int64_t> values = exponents->to_int64();
  return std::all_of(values.begin(), values.end(),
                     [](std::int64_t value) { return value >= 0 && value < 64; });
}

// The result has the base's type; the exponent may be of another one.
void lower_pow(NodeContext& c) {
  const bool few = has_few_bits(c.bound(1).constant);
  c.elementwise({0, 1}, [&](const Hlos& x) {
    HloBuilder& b = c.b;
    const DType base = x[0].dtype;
    const DType exponent = x[1].dtype;
    if (is_integer(base) && is_integer(exponent)) {
      return few ? b.binary("power", x[0], b.convert(x[1], base)) : integer_power(b, x[0], x[1]);
    }
    DType wide = is_integer(base) ? DType::kFloat64 : compute_dtype(base);
    if (exponent == DType::kFloat64) wide = DType::kFloat64;
    const Hlo power = b.binary("power", b.convert(x[0], wide), b.convert(x[1], wide));
    return cast(b, power, base);
  });
}

void lower_neg(NodeContext& c) {
  c.elementwise({0}, [&](const Hlos& x) { return c.b.unary("negate", x[0]); });
}
void lower_abs(NodeContext& c) {
  c.elementwise({0}, [&](const Hlos& x) {
    const bool is_unsigned = is_integer(x[0].dtype) && !is_signed_integer(x[0].dtype);
    return is_unsigned ? x[0] : c.b.unary("abs", x[0]);
  });
}
void lower_sign(NodeContext& c) {
  c.elementwise({0}, [&](const Hlos& x) {
    const bool is_unsigned = is_integer(x[0].dtype) && !is_signed_integer(x[0].dtype);
    if (is_unsigned) return c.b.binary_scalar("minimum", x[0], 1);
    return c.b.unary("sign", x[0]);
  });
}
void lower_reciprocal(NodeContext& c) {
  unary(c, [](HloBuilder& b, const Hlo& x) { return b.div(scalar_like(b, 1, x), x); });
}

// Ops that StableHLO has under another name.
template <int N>
struct Name {
  constexpr Name(const char (&text)[N]) {  // NOLINT(google-explicit-constructor)
    for (int i = 0; i < N; ++i) value[i] = text[i];
  }
  char value[N] = {};
};
template <Name Op>
void lower_as(NodeContext& c) {
  unary(c, [](HloBuilder& b, const Hlo& x) { return b.unary(Op.value, x); });
}

void lower_identity(NodeContext& c) {
  Bound value = c.bound(0);
  if (value.constant) {
    c.out_constant(0, *value.constant);
  } else if (c.is_last(0)) {
    c.out_last(0, c.in_last(0));
  } else {
    c.out(c.in(0));
  }
}

// --- activations --------------------------------------------------------------------------------

void lower_relu(NodeContext& c) {
  c.elementwise({0}, [&](const Hlos& x) { return c.b.maximum(x[0], c.b.zeros_like(x[0])); });
}

// x above zero, `negative(x)` below.
void split_at_zero(NodeContext& c, const Unary& positive, const Unary& negative) {
  unary(c, [&](HloBuilder& b, const Hlo& x) {
    return b.select(b.compare("GT", x, b.zeros_like(x)), positive(b, x), negative(b, x));
  });
}
Hlo itself(HloBuilder& /*b*/, const Hlo& x) { return x; }

void lower_leaky_relu(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  split_at_zero(c, itself,
                [=](HloBuilder& b, const Hlo& x) { return b.mul(x, scalar_like(b, alpha, x)); });
}
void lower_elu(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  split_at_zero(c, itself, [=](HloBuilder& b, const Hlo& x) {
    return b.mul(b.unary("exponential_minus_one", x), scalar_like(b, alpha, x));
  });
}
void lower_selu(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  const double gamma = need_float(c.node, "gamma");
  split_at_zero(
      c, [=](HloBuilder& b, const Hlo& x) { return b.mul(x, scalar_like(b, gamma, x)); },
      [=](HloBuilder& b, const Hlo& x) {
        return b.mul(b.unary("exponential_minus_one", x), scalar_like(b, alpha * gamma, x));
      });
}
void lower_celu(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  split_at_zero(c, itself, [=](HloBuilder& b, const Hlo& x) {
    const Hlo scaled = b.div(x, scalar_like(b, alpha, x));
    return b.mul(b.unary("exponential_minus_one", scaled), scalar_like(b, alpha, x));
  });
}
void lower_thresholded_relu(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  unary(c, [=](HloBuilder& b, const Hlo& x) {
    return b.select(b.compare("GT", x, scalar_like(b, alpha, x)), x, b.zeros_like(x));
  });
}
void lower_prelu(NodeContext& c) {
  c.elementwise({0, 1}, [&](const Hlos& x) {
    return c.b.select(c.b.compare("LT", x[0], c.b.zeros_like(x[0])), c.b.mul(x[0], x[1]), x[0]);
  });
}
Hlo clip_unit(HloBuilder& b, const Hlo& x) {
  return b.maximum(b.minimum(x, scalar_like(b, 1, x)), b.zeros_like(x));
}
void lower_hard_sigmoid(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  const double beta = need_float(c.node, "beta");
  unary(c, [=](HloBuilder& b, const Hlo& x) {
    return clip_unit(b, b.add(b.mul(x, scalar_like(b, alpha, x)), scalar_like(b, beta, x)));
  });
}
void lower_hard_swish(NodeContext& c) {
  unary(c, [](HloBuilder& b, const Hlo& x) {
    const Hlo gate = b.add(b.mul(x, scalar_like(b, 1.0 / 6, x)), scalar_like(b, 0.5, x));
    return b.mul(x, clip_unit(b, gate));
  });
}
void lower_swish(NodeContext& c) {
  const double alpha = need_float(c.node, "alpha");
  unary(c, [=](HloBuilder& b, const Hlo& x) {
    return b.mul(x, sigmoid(b, b.mul(x, scalar_like(b, alpha, x))));
  });
}
// XLA's own stays a rounding step below 1, however large the number: times that, as Gelu has it, is
// far from zero.
Hlo erf(HloBuilder& b, const Hlo& x) {
  const double end = x.dtype == DType::kFloat64 ? 6 : 4;  // 1 from here, rounded
  const Hlo is_inside = b.compare("LT", b.unary("abs", x), scalar_like(b, end, x));
  return b.select(is_inside, b.unary("chlo.erf", x), b.unary("sign", x));
}
void lower_erf(NodeContext& c) { unary(c, erf); }
void lower_gelu(NodeContext& c) {
  const bool by_tanh = need_string(c.node, "approximate") == "tanh";
  unary(c, [=](HloBuilder& b, const Hlo& x) {
    const Hlo half = b.mul(x, scalar_like(b, 0.5, x));
    const Hlo one = scalar_like(b, 1, x);
    if (!by_tanh) {
      const Hlo scaled = b.mul(x, scalar_like(b, std::sqrt(0.5), x));
      return b.mul(half, b.add(one, erf(b, scaled)));
    }
    const Hlo cube = b.mul(b.mul(b.mul(x, x), x), scalar_like(b, 0.044715, x));
    const Hlo inner = b.mul(b.add(x, cube), scalar_like(b, std::sqrt(2 / std::numbers::pi), x));
    return b.mul(half, b.add(one, b.unary("tanh", inner)));
  });
}
void lower_softplus(NodeContext& c) { unary(c, softplus); }
void lower_softsign(NodeContext& c) {
  unary(c, [](HloBuilder& b, const Hlo& x) {
    return b.div(x, b.add(scalar_like(b, 1, x), b.unary("abs", x)));
  });
}
void lower_mish(NodeContext& c) {
  unary(c, [](HloBuilder& b, const Hlo& x) { return b.mul(x, b.unary("tanh", softplus(b, x))); });
}
void lower_shrink(NodeContext& c) {
  const double lambd = need_float(c.node, "lambd");
  const double bias = need_float(c.node, "bias");
  c.elementwise({0}, [&](const Hlos& in) {
    HloBuilder& b = c.b;
    const DType wide = is_integer(in[0].dtype) ? DType::kFloat32 : in[0].dtype;
    const Hlo x = b.convert(in[0], wide);
    const Hlo above = b.compare("GT", x, scalar_like(b, lambd, x));
    const Hlo below = b.compare("LT", x, scalar_like(b, -lambd, x));
    // Below a negative `lambd` both hold: the standard asks first whether x is small.
    const Hlo large = b.select(above, b.sub(x, scalar_like(b, bias, x)), b.zeros_like(x));
    return cast(b, b.select(below, b.add(x, scalar_like(b, bias, x)), large), in[0].dtype);
  });
}
void lower_clip(NodeContext& c) {
  // First the lower bound, then the upper one, which therefore wins.
  std::vector<std::size_t> operands{0};
  for (const std::size_t i : {1U, 2U}) {
    if (c.has(i)) operands.push_back(i);
  }
  c.elementwise(operands, [&](const Hlos& x) {
    Hlo value = x[0];
    std::size_t next = 1;
    if (c.has(1)) value = extremum(c.b, "maximum", value, x[next++]);
    if (c.has(2)) value = extremum(c.b, "minimum", value, x[next]);
    return value;
  });
}

}  // namespace

void register_elementwise(LoweringTable& t) {
  t.add("Add", lower_add);
  t.add("Sub", lower_sub);
  t.add("Mul", lower_mul);
  t.add("Div", lower_div);
  t.add("Sum", lower_sum);
  t.add("Max", lower_max);
  t.add("Min", lower_min);
  t.add("Mean", lower_mean);
  t.add("Mod", lower_mod);
  t.add("Pow", lower_pow);
  t.add("Neg", lower_neg);
  t.add("Abs", lower_abs);
  t.add("Sign", lower_sign);
  t.add("Reciprocal", lower_reciprocal);
  t.add("Identity", lower_identity);
  t.add("Sqrt", lower_as<"sqrt">);
  t.add("Exp", lower_as<"exponential">);
  t.add("Log", lower_as<"log">);
  t.add("Sin", lower_as<"sine">);
  t.add("Cos", lower_as<"cosine">);
  t.add("Tan", lower_as<"tan">);
  t.add("Tanh", lower_as<"tanh">);
  t.add("Sigmoid", lower_as<"logistic">);
  t.add("Ceil", lower_as<"ceil">);
  t.add("Floor", lower_as<"floor">);
  t.add("Round", lower_as<"round_nearest_even">);
  t.add("Asin", lower_as<"chlo.asin">);
  t.add("Acos", lower_as<"chlo.acos">);
  t.add("Atan", lower_as<"chlo.atan">);
  t.add("Sinh", lower_as<"chlo.sinh">);
  t.add("Cosh", lower_as<"chlo.cosh">);
  t.add("Asinh", lower_as<"chlo.asinh">);
  t.add("Acosh", lower_as<"chlo.acosh">);
  t.add("Atanh", lower_as<"chlo.atanh">);
  t.add("Erf", lower_erf);
  t.add("Relu", lower_relu);
  t.add("LeakyRelu", lower_leaky_relu);
  t.add("Elu", lower_elu);
  t.add("Selu", lower_selu);
  t.add("Celu", lower_celu);
  t.add("ThresholdedRelu", lower_thresholded_relu);
  t.add("PRelu", lower_prelu);
  t.add("HardSigmoid", lower_hard_sigmoid);
  t.add("HardSwish", lower_hard_swish);
  t.add("Swish", lower_swish);
  t.add("Gelu", lower_gelu);
  t.add("Softplus", lower_softplus);
  t.add("Softsign", lower_softsign);
  t.add("Mish", lower_mish);
  t.add("Shrink", lower_shrink);
  t.add("Clip", lower_clip);
}

}  // namespace xrt::xla
