// SPDX-License-Identifier: Apache-2.0
// OneFlow's models to Graph, without OneFlow.
//
//   // The folder that oneflow.save(graph, "./resnet50_model") writes.
//   xrt::Graph graph = xrt::import_oneflow("./resnet50_model");
//
// The folder holds `model.mlir`, the job in MLIR's text, and per variable a folder with the files
// `meta` (dtype and shape) and `out` (the elements). Variables become constants that are mapped,
// not copied. Inputs are named input_0, input_1, …, outputs output_0, … .
//
// Whatever is wrong is an xrt::Error: kInvalidModel with line and column of the text or the name of
// the variable, kUnsupported naming the op, kNotFound naming the file. Nothing outside of the
// folder is read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Whether the path is such a folder, or the model.mlir of one.
XRT_API bool is_oneflow_model(const std::filesystem::path& path);

XRT_API Graph import_oneflow(const std::filesystem::path& folder);

// --- a job with its state, as a running OneFlow has it -----------------------------------------

// Part of a job that computes gradients. Training through a framework's own autograd runs the
// forward part, then, once the gradients of its outputs are known, the backward part.
enum class OneflowPhase {
  kWhole,
  kForward,   // what does not depend on the gradients; outputs what the backward part reads of it
  kBackward,  // the rest; outputs the gradient of each variable instead of updating it
};

struct OneflowJobOptions {
  // The elements of a variable of that name and type, as a constant. Where the function is empty,
  // variables are inputs of their own name, after those of the job.
  std::function<Tensor(const std::string& name, const Type& type)> variable;
  OneflowPhase phase = OneflowPhase::kWhole;
  // In a forward or backward part: how many of the job's last inputs are gradients of its outputs.
  std::size_t gradient_inputs = 0;
};

struct OneflowJob {
  Graph graph;
  std::vector<std::string> inputs;     // the job's own, in its order
  std::vector<std::string> variables;  // inputs that are variables
  std::vector<std::string> schedules;  // inputs float32[1]: learning rates
  // The variable an optimizer or a normalisation writes, and the output that holds its new value:
  // ProgramOptions::aliases. Only where variables are inputs.
  std::vector<std::pair<std::string, std::string>> aliases;
  // What the backward part reads of the forward part: outputs of the one, inputs of the other, in
  // the same order.
  std::vector<std::string> saved;
  // Backward part: a variable, and the output that holds its gradient.
  std::vector<std::pair<std::string, std::string>> gradients;
};

// `text`: what SaveJobToIR of OneFlow writes for a job, gradients and updates included.
XRT_API OneflowJob import_oneflow_job(std::string_view text, const OneflowJobOptions& options);

// The ops of OneFlow that have a handler, sorted.
XRT_API std::vector<std::string> oneflow_ops();

}  // namespace xrt
