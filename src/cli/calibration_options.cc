// SPDX-License-Identifier: Apache-2.0
#include "cli/calibration_options.h"

namespace xrt::cli {

void add_calibration_options(CLI::App& app, CalibrationOptions& options) {
  app.add_option("--calibrate", options.samples.folder,
                 "folder of samples for int8: .npz files with arrays named as the inputs; for one "
                 "input also .npy files and pictures; for several a folder per input")
      ->type_name("DIR");
  add_range_options(app, options);
}

void add_table_option(CLI::App& app, CalibrationOptions& options) {
  app.add_option("--table", options.table,
                 "ranges for int8 instead of samples: a table of xrt calibrate, or a calibration "
                 "cache of TensorRT")
      ->type_name("FILE")
      ->excludes("--calibrate");
}

void add_range_options(CLI::App& app, CalibrationOptions& options) {
  const bool chooses = options.clipping == kAutoClipping;
  std::vector<std::string> names = clipping_names();
  if (chooses) names.emplace_back(kAutoClipping);
  app.add_option("--clipping", options.clipping,
                 "part of what a value was seen to hold that gets the 256 steps: minmax (all of "
                 "it), moving_average (of each sample's), percentile, entropy (least "
                 "Kullback-Leibler divergence) or mse (least squared error)" +
                     std::string(chooses ? "; auto: mse, or minmax or moving_average where the "
                                           "outputs are more exact with them"
                                         : ""))
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  app.add_option("--percentile", options.percentile,
                 "of the elements, in percent, that --clipping=percentile keeps")
      ->capture_default_str();
  app.add_option("--average-factor", options.average_factor,
                 "how far a sample moves the ends of --clipping=moving_average")
      ->capture_default_str();
  app.add_flag("--round-sums", options.round_sums,
               "quantise also what a residual is added to: ONNX Runtime computes it in integers "
               "only then; others lose accuracy");
  app.add_option("--keep-float", options.skip, "node that stays in floating point (repeatable)")
      ->type_name("NODE")
      ->allow_extra_args(false);
}

QuantizeOptions quantize_options(const CalibrationOptions& options) {
  QuantizeOptions result;
  if (options.clipping != kAutoClipping) result.clipping = clipping_of(options.clipping);
  result.percentile = options.percentile;
  result.average_factor = options.average_factor;
  result.round_sums = options.round_sums;
  result.skip = {options.skip.begin(), options.skip.end()};
  return result;
}

}  // namespace xrt::cli
