// SPDX-License-Identifier: Apache-2.0
#include "cli/weight_options.h"

#include <fmt/format.h>

#include "program/quantize_weights_model.h"
#include "xrt/quantize.h"

namespace xrt::cli {

void add_weight_options(CLI::App& app, WeightFlags& flags) {
  CLI::Option* weights =
      app.add_option("--weights", flags.weights,
                     "int4 or int8: only the weights of MatMul, Gemm and Gather are quantised, "
                     "without samples; everything is computed in floating point")
          ->check(CLI::IsMember({"int4", "int8"}));
  app.add_option("--block", flags.block,
                 "weights that share a scale: a power of two from 16 on, or 0 for one scale per "
                 "output channel; 32 for int4 and 0 for int8, unless given")
      ->type_name("N")
      ->needs(weights);
  CLI::Option* symmetric = app.add_flag("--symmetric", flags.symmetric,
                                        "weights around zero, without zero points: int8's default")
                               ->needs(weights);
  app.add_flag("--asymmetric", flags.asymmetric, "weights with zero points: int4's default")
      ->needs(weights)
      ->excludes(symmetric);
  app.add_flag("--no-search", flags.no_search,
               "scales reach the largest weight of a block, instead of the least squared error")
      ->needs(weights);
  app.add_flag("--dynamic", flags.dynamic,
               "products by constant weights in int8, without samples: each run finds the range of "
               "what the weights are multiplied with")
      ->excludes(weights);
}

void quantize_without_samples(const std::string& model, const std::string& output,
                              const WeightFlags& flags,
                              const std::vector<std::string>& keep_float) {
  if (flags.dynamic) {
    const DynamicSummary done =
        quantize_model_dynamic(model, output, {.skip = {keep_float.begin(), keep_float.end()}});
    fmt::print("{}: {} of {} MatMul and Gemm nodes in int8, with the ranges of each run\n", output,
               done.products, done.products + done.kept);
    if (!done.too_small.empty()) fmt::print("{}\n", too_small_note(done.too_small));
    return;
  }
  const bool four = flags.weights == "int4";
  WeightOptions options;
  options.bits = four ? 4 : 8;
  options.block = flags.block.value_or(four ? 32 : 0);
  options.symmetric = flags.symmetric || (!four && !flags.asymmetric);
  options.search = !flags.no_search;
  options.skip = {keep_float.begin(), keep_float.end()};
  const WeightSummary done = quantize_model_weights(model, output, options);
  fmt::print("{}: weights of {} products and {} tables in {} bits, {} in floating point\n", output,
             done.products, done.tables, options.bits, done.kept);
  fmt::print("{:.1f} MB instead of {:.1f} MB; the worst at {:.1f} dB\n",
             static_cast<double>(done.bytes_after) / 1e6,
             static_cast<double>(done.bytes_before) / 1e6, done.decibels);
  if (!done.too_small.empty()) fmt::print("{}\n", too_small_note(done.too_small));
}

}  // namespace xrt::cli
