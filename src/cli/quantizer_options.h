// SPDX-License-Identifier: Apache-2.0
// The command line's options of the quantiser, beside those of calibration.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "program/quantize_model.h"

namespace xrt::cli {

struct QuantizerOptions {
  std::string activations = "auto";
  std::vector<std::string> rules;
  double smooth = SmoothOptions().strength;
  bool equalize = false, no_bias_correction = false;
};

void add_quantizer_options(CLI::App& app, QuantizerOptions& options);

// Both groups of options as quantize_model() takes them. With activations "auto" the engines of
// `program` are asked, where it names any.
ModelQuantization model_quantization(const QuantizerOptions& options, QuantizeOptions values,
                                     const ProgramOptions& program);

}  // namespace xrt::cli
