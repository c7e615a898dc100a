// SPDX-License-Identifier: Apache-2.0
// A built engine ("plan" in NVIDIA's words) behind an interface, so that binding, profiles and
// rebuilding (executable.h) can be tested where there is no GPU.
//
// Inputs and outputs are meant by position. Thread-safety: a Planner and an EnginePlan may be used
// by many threads, an Execution by one at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/tensorrt/ranges.h"
#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt::tensorrt {

// What one run at a time uses of a plan: an IExecutionContext.
class Execution {
 public:
  virtual ~Execution() = default;
  virtual void set_shape(std::size_t input, const Dims& dims) = 0;
  // Valid once all shapes are set; an entry is -1 where the data decide.
  virtual Dims output_dims(std::size_t output) const = 0;
  virtual void bind_input(std::size_t input, const void* device) = 0;
  virtual void bind_output(std::size_t output, void* device) = 0;
  // For an output whose shape the data decide: `allocate` gives device memory of that many bytes
  // during enqueue(), `notify` is told the shape before the stream reaches the end of the run.
  virtual void bind_dynamic_output(std::size_t output, std::function<void*(std::size_t)> allocate,
                                   std::function<void(const Dims&)> notify) = 0;
  virtual void enqueue(void* stream) = 0;
};

class EnginePlan {
 public:
  virtual ~EnginePlan() = default;
  virtual std::unique_ptr<Execution> make_execution() const = 0;
  virtual const Tensor& bytes() const = 0;  // serialised, uint8
  virtual std::size_t workspace_bytes() const = 0;
};

// Builds plans of one function.
class Planner {
 public:
  virtual ~Planner() = default;
  virtual std::shared_ptr<const EnginePlan> build(const Ranges& ranges) const = 0;
  virtual std::shared_ptr<const EnginePlan> load(const Tensor& bytes) const = 0;
};

// Settings of a build that the engine's options decide.
struct BuildOptions {
  bool tf32 = false;
  std::optional<int> optimization_level;
  std::vector<int> compute_capabilities;  // 89 for 8.9; empty: the GPU there is
  // Settings of ours: neither is an option of the engine.
  bool loadable = true;                  // false: there is no GPU; plans are built and kept only
  std::filesystem::path timing_cache;    // a file; empty: none is kept
  std::filesystem::path runtime_caches;  // a folder, likewise
};

std::vector<EngineOption> build_options_table();
// Throws kInvalidArgument for a value that cannot be read.
BuildOptions parse_build_options(const CompileOptions& options);

// A planner on NVIDIA's library; keeps a copy of the graph (which shares its tensors).
std::shared_ptr<const Planner> make_planner(const Function& function, const CompileOptions& options,
                                            BuildOptions build);
// Builds the network of a graph with the real builder and serialises it. Needs no GPU with
// TensorRT-RTX. Throws kEngine with the builder's reason.
Tensor build_plan(const Graph& graph, const std::string& name, const Ranges& ranges,
                  const BuildOptions& build, const CompileOptions& options);

}  // namespace xrt::tensorrt
