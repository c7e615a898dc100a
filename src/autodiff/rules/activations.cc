// SPDX-License-Identifier: Apache-2.0
// Activations, the softmax family and dropout.
#include <cmath>
#include <numbers>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

void relu_rule(Rule& r) { r.give(0, masked(greater(r.y(), 0.0), r.dy())); }

void leaky_relu_rule(Rule& r) {
  const double alpha = need_float(r.node, "alpha");
  r.give(0, where(greater(r.x(), 0.0), r.dy(), r.dy() * alpha));
}

void prelu_rule(Rule& r) {
  const Var positive = greater(r.x(), 0.0);
  if (r.needs(0)) r.give(0, where(positive, r.dy(), r.dy() * r.x(1)));
  if (r.needs(1)) {
    r.give_broadcast(1, where(positive, r.e.scalar(0, r.dy().dtype), r.dy() * r.x(0)));
  }
}

void thresholded_relu_rule(Rule& r) {
  r.give(0, masked(greater(r.x(), static_cast<double>(need_float(r.node, "alpha"))), r.dy()));
}

void elu_rule(Rule& r) {
  const double alpha = need_float(r.node, "alpha");
  r.give(0, where(greater(r.x(), 0.0), r.dy(), r.dy() * (r.y() + alpha)));
}

void celu_rule(Rule& r) {
  const double alpha = need_float(r.node, "alpha");
  r.give(0, where(greater(r.x(), 0.0), r.dy(), r.dy() * (r.y() / alpha + 1.0)));
}

void selu_rule(Rule& r) {
  const double alpha = need_float(r.node, "alpha");
  const double gamma = need_float(r.node, "gamma");
  r.give(0, where(greater(r.x(), 0.0), r.dy() * gamma, r.dy() * (r.y() + gamma * alpha)));
}

void sigmoid_rule(Rule& r) { r.give(0, r.dy() * r.y() * (1.0 - r.y())); }
void softplus_rule(Rule& r) { r.give(0, r.dy() * sigmoid(r.x())); }
void softsign_rule(Rule& r) { r.give(0, r.dy() / square(abs(r.x()) + 1.0)); }

void hard_sigmoid_rule(Rule& r) {
  const double alpha = need_float(r.node, "alpha");
  const Var inside = both(greater(r.y(), 0.0), less(r.y(), 1.0));
  r.give(0, masked(inside, r.dy() * alpha));
}

void hard_swish_rule(Rule& r) {
  const Var x = r.x();
  const Var slope = where(greater(x, 3.0), x.e->scalar(1, x.dtype), x / 3.0 + 0.5);
  r.give(0, masked(greater(x, -3.0), r.dy() * slope));
}

void mish_rule(Rule& r) {
  const Var x = r.x();
  const Var t = tanh(r.e.op("Softplus", {x}));
  r.give(0, r.dy() * (t + x * (1.0 - square(t)) * sigmoid(x)));
}

void swish_rule(Rule& r) {
  const double alpha = need_float(r.node, "alpha");
  const Var s = sigmoid(alpha == 1 ? r.x() : r.x() * alpha);
  r.give(0, r.dy() * (s + r.y() * (1.0 - s) * alpha));
}

void shrink_rule(Rule& r) {
  const double lambd = need_float(r.node, "lambd");
  r.give(0, masked(greater(abs(r.x()), lambd), r.dy()));
}

void gelu_rule(Rule& r) {
  const Var x = r.x();
  if (need_string(r.node, "approximate") == "tanh") {
    const double c = std::sqrt(2.0 / std::numbers::pi);
    const Var t = tanh((x + x * square(x) * 0.044715) * c);
    const Var inner = (1.0 + square(x) * (3 * 0.044715)) * c;
    r.give(0, r.dy() * ((1.0 + t) * 0.5 + x * (1.0 - square(t)) * inner * 0.5));
    return;
  }
  const Var cdf = (r.e.op("Erf", {x * std::numbers::sqrt2 * 0.5}) + 1.0) * 0.5;
  const Var pdf = exp(square(x) * -0.5) * (1.0 / std::sqrt(2.0 * std::numbers::pi));
  r.give(0, r.dy() * (cdf + x * pdf));
}

void softmax_rule(Rule& r) {
  const Dims axes{r.attr("axis")};
  const Var product = r.dy() * r.y();
  r.give(0, product - r.y() * sum(product, axes, true));
}

void log_softmax_rule(Rule& r) {
  const Dims axes{r.attr("axis")};
  r.give(0, r.dy() - exp(r.y()) * sum(r.dy(), axes, true));
}

// The mask is the node's own: what it dropped, its output holds as zeros. Only an output mask says
// so where an input is zero itself, so the node is given one.
void dropout_rule(Rule& r) {
  const Tensor* training = r.has(2) ? r.e.graph().constant(r.node.input(2)) : nullptr;
  const bool off = !r.has(2) || (training != nullptr && training->to_int64().at(0) == 0);
  if (off) return r.give(0, r.dy());
  if (training == nullptr) r.refuse("training_mode is not a constant");
  double ratio = 0.5;
  if (r.has(1)) {
    const Tensor* given = r.e.graph().constant(r.node.input(1));
    if (given == nullptr || given->dtype() != DType::kFloat32) {
      r.refuse("the ratio is not a float32 constant");
    }
    ratio = *given->data<float>();
  }
  if (ratio == 0) return r.give(0, r.dy());
  if (!r.node.output(1).valid()) r.refuse("it is random, and its output 'mask' is left out");
  r.give(0, masked(r.y(1), r.dy() * (1.0 / (1.0 - ratio))));
}

}  // namespace

void register_activations(RuleRegistry& registry) {
  registry.add("Relu", relu_rule);
  registry.add("LeakyRelu", leaky_relu_rule);
  registry.add("PRelu", prelu_rule);
  registry.add("ThresholdedRelu", thresholded_relu_rule);
  registry.add("Elu", elu_rule);
  registry.add("Celu", celu_rule);
  registry.add("Selu", selu_rule);
  registry.add("Sigmoid", sigmoid_rule);
  registry.add("Softplus", softplus_rule);
  registry.add("Softsign", softsign_rule);
  registry.add("HardSigmoid", hard_sigmoid_rule);
  registry.add("HardSwish", hard_swish_rule);
  registry.add("Mish", mish_rule);
  registry.add("Swish", swish_rule);
  registry.add("Shrink", shrink_rule);
  registry.add("Gelu", gelu_rule);
  registry.add("Softmax", softmax_rule);
  registry.add("LogSoftmax", log_softmax_rule);
  registry.add("Dropout", dropout_rule, inputs({0}));
}

}  // namespace xrt::autodiff
