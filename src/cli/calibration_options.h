// SPDX-License-Identifier: Apache-2.0
// The command line's options of calibration for int8.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "data/samples.h"
#include "xrt/quantize.h"

namespace xrt::cli {

struct CalibrationOptions {
  SampleFiles samples;
  std::string clipping = "minmax";
  double percentile = 99.99;
  bool round_sums = false;
  std::vector<std::string> skip;
};

// --calibrate and what goes with it.
void add_calibration_options(CLI::App& app, CalibrationOptions& options);
QuantizeOptions quantize_options(const CalibrationOptions& options);

}  // namespace xrt::cli
