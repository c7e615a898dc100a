// SPDX-License-Identifier: Apache-2.0
// A model's file with quantised weights, without samples: what `xrt quantize --weights`,
// `xrt quantize --dynamic` and openxrt.quantize.quantize() do. And a quantised model that is
// trained on: openxrt.quantize.trainable() and export_trained().
//
//   const WeightSummary done = quantize_model_weights("net.onnx", "net_int4.onnx", {.bits = 4});
#pragma once

#include <filesystem>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/quantize_weights.h"

namespace xrt {

// Read `model` (an ONNX file or a folder that OneFlow saved) and write `output`, an ONNX file.
// Throw kInvalidArgument for a node in options.skip that the model has not, and what reading,
// quantize_weights() or quantize_dynamic(), and writing throw.
XRT_API WeightSummary quantize_model_weights(const std::filesystem::path& model,
                                             const std::filesystem::path& output,
                                             const WeightOptions& options);
XRT_API DynamicSummary quantize_model_dynamic(const std::filesystem::path& model,
                                              const std::filesystem::path& output,
                                              const DynamicOptions& options);

// Reads a model that is quantised (Q/DQ) in the form in which it can be trained, see
// xrt/quantize_training.h. Throws what reading and open_quantised_weights() throw.
XRT_API Graph trainable_quantised_model(const std::filesystem::path& model);
// Writes a trained one as an ONNX file, its weights in int8. Throws what close_quantised_weights()
// and writing throw.
XRT_API void export_trained_model(Graph graph, const std::filesystem::path& output);

}  // namespace xrt
