// SPDX-License-Identifier: Apache-2.0
// ai.onnx.preview.training: Adagrad, Adam, Momentum. Operands: R (learning rate), T (update count),
// then the tensors, their gradients and their states, each group in the same order.
#include <string>

#include "engines/xla/lowering.h"

namespace xrt::xla {

namespace {

struct Update {
  Hlo rate;      // scalar
  Hlo count;     // scalar, of the rate's type
  Hlo is_later;  // count > 0
};

Update read_update(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo rate = b.reshape(c.in(0), {});
  const Hlo count = b.reshape(c.in(1), {});
  return {rate, b.convert(count, rate.dtype), b.compare("GT", count, b.zeros_like(count))};
}

Hlo scaled(HloBuilder& b, const Hlo& x, double factor) {
  return b.binary_scalar("multiply", x, factor);
}

// The gradient with the penalty on the squared norm of the tensor.
Hlo regularized(NodeContext& c, const Hlo& x, const Hlo& gradient) {
  return c.b.add(scaled(c.b, x, need_float(c.node, "norm_coefficient")), gradient);
}

Hlo times(HloBuilder& b, const Hlo& scalar, const Hlo& x) {
  return b.mul(b.broadcast_in_dim(b.convert(scalar, x.dtype), x.dims, {}), x);
}

void lower_adagrad(NodeContext& c) {
  HloBuilder& b = c.b;
  const Update u = read_update(c);
  const std::size_t n = (c.input_count() - 2) / 3;
  const double epsilon = need_float(c.node, "epsilon");
  const Hlo decay =
      b.binary_scalar("add", scaled(b, u.count, need_float(c.node, "decay_factor")), 1);
  const Hlo rate = b.div(u.rate, decay);
  for (std::size_t i = 0; i < n; ++i) {
    const Hlo x = c.in(2 + i);
    const Hlo g = regularized(c, x, c.in(2 + n + i));
    const Hlo h = b.add(c.in(2 + 2 * n + i), b.mul(g, g));
    const Hlo divisor = b.binary_scalar("add", b.unary("sqrt", h), epsilon);
    c.out(i, b.sub(x, times(b, rate, b.div(g, divisor))));
    c.out(n + i, h);
  }
}

void lower_momentum(NodeContext& c) {
  HloBuilder& b = c.b;
  const Update u = read_update(c);
  const std::size_t n = (c.input_count() - 2) / 3;
  const double alpha = need_float(c.node, "alpha");
  const Hlo one = b.scalar(1, u.rate.dtype);
  const Hlo beta = b.select(u.is_later, b.scalar(need_float(c.node, "beta"), u.rate.dtype), one);
  const bool nesterov = need_string(c.node, "mode") == "nesterov";
  for (std::size_t i = 0; i < n; ++i) {
    const Hlo x = c.in(2 + i);
    const Hlo g = regularized(c, x, c.in(2 + n + i));
    const Hlo v = b.add(scaled(b, c.in(2 + 2 * n + i), alpha), times(b, beta, g));
    const Hlo step = nesterov ? b.add(g, scaled(b, v, alpha)) : v;
    c.out(i, b.sub(x, times(b, u.rate, step)));
    c.out(n + i, v);
  }
}

void lower_adam(NodeContext& c) {
  HloBuilder& b = c.b;
  const Update u = read_update(c);
  const std::size_t n = (c.input_count() - 2) / 4;
  const double alpha = need_float(c.node, "alpha");
  const double beta = need_float(c.node, "beta");
  const double epsilon = need_float(c.node, "epsilon");
  const double post = need_float(c.node, "norm_coefficient_post");
  const auto one_less_power = [&](double base) {
    const Hlo one = b.scalar(1, u.rate.dtype);
    return b.sub(one, b.binary("power", b.scalar(base, u.rate.dtype), u.count));
  };
  const Hlo corrected =
      b.div(b.mul(u.rate, b.unary("sqrt", one_less_power(beta))), one_less_power(alpha));
  const Hlo rate = b.select(u.is_later, corrected, u.rate);
  for (std::size_t i = 0; i < n; ++i) {
    const Hlo x = c.in(2 + i);
    const Hlo g = regularized(c, x, c.in(2 + n + i));
    const Hlo v = b.add(scaled(b, c.in(2 + 2 * n + i), alpha), scaled(b, g, 1 - alpha));
    const Hlo h = b.add(scaled(b, c.in(2 + 3 * n + i), beta), scaled(b, b.mul(g, g), 1 - beta));
    const Hlo divisor = b.binary_scalar("add", b.unary("sqrt", h), epsilon);
    c.out(i, scaled(b, b.sub(x, times(b, rate, b.div(v, divisor))), 1 - post));
    c.out(n + i, v);
    c.out(2 * n + i, h);
  }
}

}  // namespace

void register_optimizers(LoweringTable& t) {
  t.add("ai.onnx.preview.training.Adagrad", lower_adagrad);
  t.add("ai.onnx.preview.training.Momentum", lower_momentum);
  t.add("ai.onnx.preview.training.Adam", lower_adam);
}

}  // namespace xrt::xla
