// SPDX-License-Identifier: Apache-2.0
// A model's file in int8: what the command `xrt quantize` and openxrt.quantize.quantize() do.
//
//   const QuantizedModel done = quantize_model("net.onnx", "net_int8.onnx", samples, {});
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "program/calibration.h"
#include "xrt/calibration.h"
#include "xrt/export.h"
#include "xrt/quantize.h"

namespace xrt {

// "auto": the clippings of which one is best for nearly every model. Else that of clipping_of().
XRT_API std::vector<Clipping> clippings_of(std::string_view text);

struct ModelQuantization {
  QuantizeOptions values;
  // To choose from, by the decibels of the outputs over the first samples (choose_clipping());
  // none: values.clipping.
  std::vector<Clipping> clippings;
  SmoothOptions smoothing;
  bool correct_bias = true;
  // Signal over noise that the outputs must have, in decibels; 0: none is asked for.
  double decibels = 0;
  // Where it is set: `wanted` of what it says of a quantised graph must be reached, see
  // reach_accuracy(). Not with `decibels`.
  Judge judge;
  double wanted = 0;
  bool rank = false;  // measure what each node costs: rank_nodes()
};

struct QuantizedModel {
  QuantizeSummary summary;
  SmoothSummary smoothed;
  Clipping clipping = Clipping::kMinMax;
  bool float_results = false;  // QuantizeOptions::float_results, which it gained by
  std::size_t samples = 0;
  double reached = 0;  // of the accuracy that was asked for: decibels, or what the judge said
  std::vector<std::string> kept;  // nodes that stay in floating point for it
  std::vector<NodeNoise> nodes;   // where ModelQuantization::rank asks for them
};

// Reads `model` (an ONNX file or a folder that OneFlow saved), calibrates it with the samples and
// writes `output`, an ONNX file. Open first dimensions of the inputs are 1; other open dimensions
// are as the samples have them. Throws kInvalidArgument for an input of unknown rank, for a node in
// options.values.skip and a rule that fits no node of the model, and what reading, calibrating and
// writing throw.
XRT_API QuantizedModel quantize_model(const std::filesystem::path& model,
                                      const std::filesystem::path& output,
                                      const SampleSource& samples,
                                      const ModelQuantization& options = {});

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
