// SPDX-License-Identifier: Apache-2.0
// `xrt quantize` without samples: weights alone, or ranges that the run finds.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace xrt::cli {

struct WeightFlags {
  std::string weights;  // "int4", "int8"; empty: not asked for
  std::optional<long> block;
  bool symmetric = false, asymmetric = false;
  bool no_search = false;
  bool dynamic = false;

  bool given() const { return dynamic || !weights.empty(); }
};

// --weights, --dynamic and what goes with them.
void add_weight_options(CLI::App& app, WeightFlags& flags);

// Writes the model, and says what was done. Throws what quantize_model_weights() throws.
void quantize_without_samples(const std::string& model, const std::string& output,
                              const WeightFlags& flags, const std::vector<std::string>& keep_float);

}  // namespace xrt::cli
