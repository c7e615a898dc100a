// SPDX-License-Identifier: Apache-2.0
#include "ops/gate_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>

#include "xrt/error.h"

namespace xrt {
namespace {

struct Known {
  std::string_view name;
  bool has_alpha = false, has_beta = false;
  float alpha = 0, beta = 0;
};

constexpr Known kKnown[] = {
    {.name = "affine", .has_alpha = true, .has_beta = true, .alpha = 1},
    {.name = "elu", .has_alpha = true, .alpha = 1},
    {.name = "hardsigmoid", .has_alpha = true, .has_beta = true, .alpha = 0.2F, .beta = 0.5F},
    {.name = "leakyrelu", .has_alpha = true, .alpha = 0.01F},
    {.name = "relu"},
    {.name = "scaledtanh", .has_alpha = true, .has_beta = true, .alpha = 1, .beta = 1},
    {.name = "sigmoid"},
    {.name = "softplus"},
    {.name = "softsign"},
    {.name = "tanh"},
    {.name = "thresholdedrelu", .has_alpha = true, .alpha = 1}};

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> default_names(const Node& node) {
  if (node.op == "RNN") return {"Tanh"};
  if (node.op == "GRU") return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

// The next of the list, and the default behind its end.
float take(const std::vector<float>& list, std::size_t& next, float otherwise) {
  return next < list.size() ? list[next++] : otherwise;
}

}  // namespace

std::vector<GateFunction> gate_functions(const Node& node) {
  const std::vector<std::string> defaults = default_names(node);
  const bool both = node.attr_string("direction", "forward") == "bidirectional";
  const std::size_t wanted = defaults.size() * (both ? 2 : 1);
  std::vector<std::string> names = node.attr_strings("activations");
  if (names.empty()) {
    names = defaults;
    if (both) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  // The schema's default for RNN are two, and so ONNX Runtime saves it, whatever the direction.
  if (node.op == "RNN" && names.size() > wanted) names.resize(wanted);
  if (names.size() != wanted) {
    throw Error(
        ErrorCode::kInvalidModel,
        fmt::format("'activations' names {} functions instead of {}", names.size(), wanted));
  }
  const std::vector<float> alphas = node.attr_floats("activation_alpha");
  const std::vector<float> betas = node.attr_floats("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  std::vector<GateFunction> functions;
  for (const std::string& name : names) {
    const std::string small = lowered(name);
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const Known& one) { return one.name == small; });
    if (known == std::end(kKnown)) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("activation '{}' is not known", name));
    }
    functions.push_back({small, known->has_alpha ? take(alphas, next_alpha, known->alpha) : 0,
                         known->has_beta ? take(betas, next_beta, known->beta) : 0});
  }
  return functions;
}

}  // namespace xrt
