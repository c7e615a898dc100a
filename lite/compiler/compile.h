// SPDX-License-Identifier: Apache-2.0
// The lite compiler: from a model to one file, or to C sources.
//
//   Module module = compile(load_model("model.onnx"), {.targets = {"x86", "generic"}});
//   write_file_atomic("model.bin", write_file(module));
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "module.h"
#include "xrt/graph.h"
#include "xrt/program.h"
#include "xrt/quantize.h"

namespace xrt::lite {

// Calls its second argument once per sample, with values in the order of `inputs`, whose types are
// static.
using Samples = std::function<void(const std::vector<Port>& inputs,
                                   const std::function<void(const std::vector<Tensor>&)>& use)>;

struct CompileOptions {
  // In order of priority: what the first cannot run falls to the next.
  std::vector<std::string> targets = {"generic"};
  std::map<std::string, std::int64_t> dims =
      {};  // of the inputs' symbols (a dimension without: INPUT.AXIS); others 1
  Precision precision = Precision::kFloat32;
  // kInt8: what a model in floating point is calibrated with; none where it has Q/DQ already.
  Samples samples = {};
  QuantizeOptions quantize = {};
};

// An ONNX file (*.onnx), a folder that OneFlow saved, or the text form of a graph (any other name).
Graph load_model(const std::filesystem::path& path);

// `graph` with static shapes, after the standard passes. `notes` tells what was assumed.
Graph prepare(Graph graph, const std::map<std::string, std::int64_t>& dims,
              std::vector<std::string>& notes);

// Throws xrt::Error: kNotFound (a target that does not exist), kUnsupported (an op that no target
// runs, shapes that are not static), kInvalidArgument (samples that do not fit the model).
Module compile(Graph graph, const CompileOptions& options, std::vector<std::string>& notes);

}  // namespace xrt::lite
