// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/recurrent/config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "engines/native/kernels/common/axes.h"
#include "ir/attributes.h"

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

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// `alphas` and `betas` are consumed by the functions that have such a parameter.
Activation parse_activation(const std::string& name, const std::vector<float>& alphas,
                            std::size_t& next_alpha, const std::vector<float>& betas,
                            std::size_t& next_beta) {
  using Kind = Activation::Kind;
  struct Row {
    const char* name;
    Kind kind;
    bool has_alpha, has_beta;
    float alpha, beta;
  };
  static constexpr Row kRows[] = {{"relu", Kind::kRelu, false, false, 0, 0},
                                  {"tanh", Kind::kTanh, false, false, 0, 0},
                                  {"sigmoid", Kind::kSigmoid, false, false, 0, 0},
                                  {"affine", Kind::kAffine, true, true, 1, 0},
                                  {"leakyrelu", Kind::kLeakyRelu, true, false, 0.01F, 0},
                                  {"thresholdedrelu", Kind::kThresholdedRelu, true, false, 1, 0},
                                  {"scaledtanh", Kind::kScaledTanh, true, true, 1, 1},
                                  {"hardsigmoid", Kind::kHardSigmoid, true, true, 0.2F, 0.5F},
                                  {"elu", Kind::kElu, true, false, 1, 0},
                                  {"softsign", Kind::kSoftsign, false, false, 0, 0},
                                  {"softplus", Kind::kSoftplus, false, false, 0, 0}};
  const std::string wanted = lowered(name);
  for (const Row& row : kRows) {
    if (wanted != row.name) continue;
    Activation a{row.kind, row.alpha, row.beta};
    if (row.has_alpha && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (row.has_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
    return a;
  }
  fail("activation '" + name + "' is not known");
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
  std::vector<std::string> names = node.attr_strings("activations");
  const std::size_t per_direction = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 2 : 3;
  const auto wanted = per_direction * static_cast<std::size_t>(c.directions);
  if (names.empty()) {
    static const char* const kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
    for (std::size_t i = 0; i < wanted; ++i) {
      names.emplace_back(cell == Cell::kRnn ? "Tanh" : kDefaults[i % per_direction]);
    }
  }
  if (names.size() != wanted) fail("'activations' names another number of functions");
  const std::vector<float> alphas = node.attr_floats("activation_alpha");
  const std::vector<float> betas = node.attr_floats("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    c.activations.push_back(parse_activation(name, alphas, next_alpha, betas, next_beta));
  }
  return c;
}

}  // namespace xrt::native
