// SPDX-License-Identifier: Apache-2.0
// A model's file in int8: what the command `xrt quantize` and openxrt.quantize.quantize() do.
//
//   const QuantizedModel done = quantize_model("net.onnx", "net_int8.onnx", samples, {});
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/program.h"
#include "xrt/quantize.h"

namespace xrt {

// Calls its second argument once per sample, with values in the order of `inputs`.
using SampleSource = std::function<void(
    const std::vector<Port>& inputs, const std::function<void(const std::vector<Tensor>&)>& use)>;

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

}  // namespace xrt
