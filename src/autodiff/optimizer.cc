// SPDX-License-Identifier: Apache-2.0
#include "autodiff/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "xrt/error.h"

namespace xrt::autodiff {
namespace {

void check(bool condition, const OptimizerOptions& o, const char* what) {
  if (!condition) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("optimizer \"{}\": {}", o.name, what));
  }
}

bool is_adam(const std::string& name) { return name == "adam" || name == "adamw"; }

double bias_correction(double beta, std::int64_t t) {
  return 1 - std::pow(beta, static_cast<double>(t));
}

}  // namespace

Optimizer::Optimizer(OptimizerOptions options) : options_(std::move(options)) {
  OptimizerOptions& o = options_;
  const bool known = o.name == "sgd" || o.name == "adagrad" || o.name == "rmsprop" ||
                     is_adam(o.name) || o.name == "lamb";
  check(known, o, "is not known; there are sgd, adagrad, rmsprop, adam, adamw, lamb");
  check(o.learning_rate >= 0, o, "the learning rate is negative");
  check(o.weight_decay >= 0, o, "the weight decay is negative");
  check(o.momentum >= 0, o, "the momentum is negative");
  check(o.clip_value >= 0 && o.clip_norm >= 0, o, "a bound of clipping is negative");
  check(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, o,
        "beta1 and beta2 must be in [0, 1)");
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0), o,
        "Nesterov's form wants a momentum and no dampening");
  if (o.epsilon < 0) o.epsilon = o.name == "adagrad" ? 1e-10 : o.name == "lamb" ? 1e-6 : 1e-8;

  const auto add = [&](std::string name, std::function<double(std::int64_t, double)> value) {
    scalars_.push_back({std::move(name), std::move(value)});
  };
  const double beta1 = o.beta1;
  const double beta2 = o.beta2;
  if (o.name == "adagrad") {
    const double decay = o.learning_rate_decay;
    add("learning_rate", [decay](std::int64_t t, double rate) {
      return rate / (1 + static_cast<double>(t - 1) * decay);
    });
    states_.push_back({"sum", o.initial_accumulator});
    return;
  }
  if (o.name == "sgd") {
    add("learning_rate", [](std::int64_t, double rate) { return rate; });
    if (o.momentum == 0) return;
    states_.push_back({"momentum"});
    if (o.dampening != 0) {
      // The first gradient starts the momentum undamped.
      const double damped = 1 - o.dampening;
      add("gradient_share", [damped](std::int64_t t, double) { return t == 1 ? 1.0 : damped; });
    }
    return;
  }
  if (o.name == "rmsprop") {
    add("learning_rate", [](std::int64_t, double rate) { return rate; });
    states_.push_back({"square_avg"});
    if (o.centered) states_.push_back({"grad_avg"});
    if (o.momentum > 0) states_.push_back({"momentum"});
    return;
  }
  states_.push_back({"exp_avg"});
  states_.push_back({"exp_avg_sq"});
  if (o.name == "lamb") {
    add("learning_rate", [](std::int64_t, double rate) { return rate; });
    add("correction1", [beta1](std::int64_t t, double) { return 1 / bias_correction(beta1, t); });
    add("correction2",
        [beta2](std::int64_t t, double) { return 1 / std::sqrt(bias_correction(beta2, t)); });
    return;
  }
  add("step_size",
      [beta1](std::int64_t t, double rate) { return rate / bias_correction(beta1, t); });
  add("correction2",
      [beta2](std::int64_t t, double) { return 1 / std::sqrt(bias_correction(beta2, t)); });
  if (o.name == "adamw" && o.weight_decay != 0) {
    const double decay = o.weight_decay;
    add("kept", [decay](std::int64_t, double rate) { return 1 - rate * decay; });
  }
  if (o.amsgrad) states_.push_back({"max_exp_avg_sq"});
}

std::vector<Var> Optimizer::clip(Emitter& e, std::vector<Var> gradients) const {
  if (options_.clip_value > 0) {
    for (Var& g : gradients) {
      g = e.op("Clip", {g, e.scalar(-options_.clip_value, g.dtype),
                        e.scalar(options_.clip_value, g.dtype)});
    }
  }
  if (options_.clip_norm > 0 && !gradients.empty()) {
    Var total;
    for (const Var g : gradients) {
      const Var part =
          e.op("ReduceSumSquare", {cast(g, gradients[0].dtype)}, {{"keepdims", std::int64_t{0}}});
      total = total.valid() ? total + part : part;
    }
    const Var scale =
        min(options_.clip_norm / (sqrt(total) + 1e-6), e.scalar(1, gradients[0].dtype));
    for (Var& g : gradients) g = g * cast(scale, g.dtype);
  }
  return gradients;
}

Optimizer::Update Optimizer::update(Var p, Var g, const std::vector<Var>& s,
                                    const std::vector<Var>& scalars) const {
  std::vector<Var> c;
  for (const Var scalar : scalars) c.push_back(cast(scalar, p.dtype));
  const bool decoupled = options_.name == "adamw" || options_.name == "lamb";
  if (options_.weight_decay != 0 && !decoupled) g = g + p * options_.weight_decay;
  if (options_.name == "sgd") return sgd(p, g, s, c);
  if (options_.name == "adagrad") return adagrad(p, g, s, c);
  if (options_.name == "rmsprop") return rmsprop(p, g, s, c);
  if (options_.name == "lamb") return lamb(p, g, s, c);
  return adam(p, g, s, c);
}

Optimizer::Update Optimizer::sgd(Var p, Var g, const std::vector<Var>& s,
                                 const std::vector<Var>& c) const {
  if (s.empty()) return {p - g * c[0], {}};
  const Var m = s[0] * options_.momentum + (c.size() > 1 ? g * c[1] : g);
  const Var step = options_.nesterov ? g + m * options_.momentum : m;
  return {p - step * c[0], {m}};
}

Optimizer::Update Optimizer::adagrad(Var p, Var g, const std::vector<Var>& s,
                                     const std::vector<Var>& c) const {
  const Var total = s[0] + square(g);
  return {p - g / (sqrt(total) + options_.epsilon) * c[0], {total}};
}

Optimizer::Update Optimizer::rmsprop(Var p, Var g, const std::vector<Var>& s,
                                     const std::vector<Var>& c) const {
  const double a = options_.alpha;
  Update u;
  u.states.push_back(s[0] * a + square(g) * (1 - a));
  Var spread = u.states[0];
  if (options_.centered) {
    u.states.push_back(s[1] * a + g * (1 - a));
    spread = spread - square(u.states[1]);
  }
  Var step = g / (sqrt(spread) + options_.epsilon);
  if (options_.momentum > 0) {
    step = s.back() * options_.momentum + step;
    u.states.push_back(step);
  }
  u.parameter = p - step * c[0];
  return u;
}

Optimizer::Update Optimizer::adam(Var p, Var g, const std::vector<Var>& s,
                                  const std::vector<Var>& c) const {
  const Var m = s[0] * options_.beta1 + g * (1 - options_.beta1);
  const Var v = s[1] * options_.beta2 + square(g) * (1 - options_.beta2);
  Update u{p, {m, v}};
  if (c.size() > 2) u.parameter = p * c[2];
  Var spread = v;
  if (options_.amsgrad) {
    spread = max(s[2], v);
    u.states.push_back(spread);
  }
  u.parameter = u.parameter - m / (sqrt(spread) * c[1] + options_.epsilon) * c[0];
  return u;
}

Optimizer::Update Optimizer::lamb(Var p, Var g, const std::vector<Var>& s,
                                  const std::vector<Var>& c) const {
  const Var m = s[0] * options_.beta1 + g * (1 - options_.beta1);
  const Var v = s[1] * options_.beta2 + square(g) * (1 - options_.beta2);
  Var step = m * c[1] / (sqrt(v) * c[2] + options_.epsilon);
  if (options_.weight_decay != 0) step = step + p * options_.weight_decay;
  const auto norm = [](Var x) {
    return sqrt(x.e->op("ReduceSumSquare", {x}, {{"keepdims", std::int64_t{0}}}));
  };
  const Var weight = norm(p);
  const Var length = norm(step);
  const Var one = p.e->scalar(1, p.dtype);
  const Var usable = both(greater(weight, 0.0), greater(length, 0.0));
  const Var trust = where(usable, weight / where(usable, length, one), one);
  return {p - step * (trust * c[0]), {m, v}};
}

}  // namespace xrt::autodiff
