// SPDX-License-Identifier: Apache-2.0
// A model's file in int8: what the command `xrt quantize` and openxrt.quantize.quantize() do.
//
//   const QuantizedModel done = quantize_model("net.onnx", "net_int8.onnx", samples, {});
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "program/calibration.h"
#include "xrt/calibration.h"
#include "xrt/export.h"
#include "xrt/quantize.h"

namespace xrt {

struct QuantizedModel {
  QuantizeSummary summary;
  std::size_t samples = 0;
  double decibels = 0;  // signal over noise that was reached where an accuracy was asked for
  std::vector<std::string> kept;  // nodes that stay in floating point for it
};

// Reads `model` (an ONNX file or a folder that OneFlow saved), calibrates it with the samples and
// writes `output`, an ONNX file. Open first dimensions of the inputs are 1; other open dimensions
// are as the samples have them. `accuracy` is in decibels, 0 where none is asked for: see
// reach_accuracy(). Throws kInvalidArgument for an input of unknown rank and for a node in
// options.skip that the model has not, and what reading, calibrating and writing throw.
XRT_API QuantizedModel quantize_model(const std::filesystem::path& model,
                                      const std::filesystem::path& output,
                                      const SampleSource& samples, QuantizeOptions options,
                                      double accuracy = 0);

// The same by a table: a file of ours or a calibration cache of TensorRT. Throws what
// load_any_table() and ranges_for() throw.
XRT_API QuantizedModel quantize_model(const std::filesystem::path& model,
                                      const std::filesystem::path& output,
                                      const std::filesystem::path& table,
                                      const QuantizeOptions& options);
XRT_API QuantizedModel quantize_model(const std::filesystem::path& model,
                                      const std::filesystem::path& output,
                                      const CalibrationTable& table,
                                      const QuantizeOptions& options);

}  // namespace xrt
