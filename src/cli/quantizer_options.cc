// SPDX-License-Identifier: Apache-2.0
#include "cli/quantizer_options.h"

#include <optional>
#include <utility>

#include "program/int8_form.h"

namespace xrt::cli {

void add_quantizer_options(CLI::App& app, QuantizerOptions& options) {
  app.add_option("--activations", options.activations,
                 "asymmetric (uint8), symmetric (int8, zero point 0), or auto: as the engines of "
                 "--engine take them")
      ->check(CLI::IsMember({"auto", "asymmetric", "symmetric", "uint8", "int8"}))
      ->capture_default_str();
  app.add_option("--op", options.rules,
                 "what to do with some nodes (repeatable, the last one counts): PATTERN is an op "
                 "type or a node's name with * and ?, WORDs are float or int8, asymmetric or "
                 "symmetric, and one of --clipping")
      ->type_name("PATTERN=WORD,...")
      ->allow_extra_args(false);
  app.add_option("--smooth", options.smooth,
                 "how much of the differences between channels goes from what products read into "
                 "their weights, where the noise gets less: 0 nothing, 1 all")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--equalize", options.equalize,
               "do so between two convolutions, too: cross-layer equalisation");
  app.add_flag("--no-bias-correction", options.no_bias_correction,
               "leave in biases what rounding the weights adds in the mean");
}

ModelQuantization model_quantization(const QuantizerOptions& options, QuantizeOptions values,
                                     const ProgramOptions& program) {
  ModelQuantization how;
  how.values = std::move(values);
  std::optional<Activations> wanted;
  if (options.activations != "auto") wanted = activations_of(options.activations);
  if (!program.engines.empty()) {
    int8_form_for(program, wanted).set(how.values);
  } else if (wanted) {
    how.values.activations = *wanted;
  }
  for (const std::string& rule : options.rules) how.values.rules.push_back(op_rule_of(rule));
  how.smoothing.strength = options.smooth;
  how.smoothing.layers = options.equalize;
  how.correct_bias = !options.no_bias_correction;
  return how;
}

}  // namespace xrt::cli
