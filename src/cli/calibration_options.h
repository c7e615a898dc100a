// SPDX-License-Identifier: Apache-2.0
// The command line's options of calibration for int8.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "data/samples.h"
#include "xrt/quantize.h"

namespace xrt::cli {

// Of a command that chooses the clipping itself: clippings_of().
inline constexpr const char* kAutoClipping = "auto";

struct CalibrationOptions {
  SampleFiles samples;
  std::filesystem::path table;
  std::string clipping = "minmax";
  double percentile = QuantizeOptions().percentile;
  double average_factor = QuantizeOptions().average_factor;
  bool round_sums = false;
  std::vector<std::string> skip;
};

// --calibrate, and how ranges are found. What pictures among the samples become is
// add_pixel_options()'s (data_options.h).
void add_calibration_options(CLI::App& app, CalibrationOptions& options);
// --table, which excludes --calibrate.
void add_table_option(CLI::App& app, CalibrationOptions& options);
// How ranges are found and which values have one: --clipping to --keep-float. "auto" is a clipping
// where it is the default.
void add_range_options(CLI::App& app, CalibrationOptions& options);
QuantizeOptions quantize_options(const CalibrationOptions& options);

}  // namespace xrt::cli
