// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/recurrent/config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engines/native/kernels/common/axes.h"
#include "ir/attributes.h"
#include "ops/gate_functions.h"

namespace xrt::native {

double Activation::value(double x) const {
  const auto a = static_cast<double>(alpha);
  const auto b = static_cast<double>(beta);
  switch (kind) {
    case Kind::kRelu:
      return std::max(x, 0.0);
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::kAffine:
      return a * x + b;
    case Kind::kLeakyRelu:
      return x >= 0 ? x : a * x;
    case Kind::kThresholdedRelu:
      return x >= a ? x : 0;
    case Kind::kScaledTanh:
      return a * std::tanh(b * x);
    case Kind::kHardSigmoid:
      return std::clamp(a * x + b, 0.0, 1.0);
    case Kind::kElu:
      return x >= 0 ? x : a * std::expm1(x);
    case Kind::kSoftsign:
      return x / (1 + std::fabs(x));
    case Kind::kSoftplus:
      return std::log1p(std::exp(x));
  }
  return x;
}

namespace {

Activation activation_of(const GateFunction& function) {
  using Kind = Activation::Kind;
  struct Row {
    const char* name;
    Kind kind;
  };
  static constexpr Row kRows[] = {{"relu", Kind::kRelu},
                                  {"tanh", Kind::kTanh},
                                  {"sigmoid", Kind::kSigmoid},
                                  {"affine", Kind::kAffine},
                                  {"leakyrelu", Kind::kLeakyRelu},
                                  {"thresholdedrelu", Kind::kThresholdedRelu},
                                  {"scaledtanh", Kind::kScaledTanh},
                                  {"hardsigmoid", Kind::kHardSigmoid},
                                  {"elu", Kind::kElu},
                                  {"softsign", Kind::kSoftsign},
                                  {"softplus", Kind::kSoftplus}};
  for (const Row& row : kRows) {
    if (function.name == row.name) return {row.kind, function.alpha, function.beta};
  }
  fail("activation '" + function.name + "' has no kernel");
}

}  // namespace

RecurrentConfig parse_recurrent(const Node& node, Cell cell) {
  RecurrentConfig c{};
  c.cell = cell;
  c.gates = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4;
  const std::string direction = need_string(node, "direction");
  if (direction == "bidirectional")
    c.directions = 2;
  else if (direction == "reverse")
    c.reverse = true;
  else if (direction != "forward")
    fail("direction '" + direction + "' is not known");
  c.hidden = node.attr_int("hidden_size", 0);
  c.batch_first = node.attr_int("layout", 0) != 0;
  c.linear_before_reset = cell == Cell::kGru && need_int(node, "linear_before_reset") != 0;
  c.input_forget = cell == Cell::kLstm && need_int(node, "input_forget") != 0;
  c.clip = node.attr_float("clip", 0.0F);
  for (const GateFunction& function : gate_functions(node)) {
    c.activations.push_back(activation_of(function));
  }
  return c;
}

}  // namespace xrt::native
