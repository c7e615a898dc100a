// SPDX-License-Identifier: Apache-2.0
// A function on a device: its constants and its code are there once, each run has an arena of its
// own. The first run of an arena queues step by step; then the steps are recorded, and further runs
// queue them as one CUDA graph, between copies of inputs to the arena and of results from it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/compute.h"
#include "engines/cuda/cudnn.h"
#include "engines/cuda/plan.h"
#include "xrt/engine.h"

namespace xrt::cuda {

struct ExecutableOptions {
  bool tf32 = false;            // float32 in products and convolutions may be rounded to TF32
  bool graph = true;            // record the steps
  bool measure = true;          // time the ways of NVIDIA's libraries
  bool use_libraries = true;    // else all kernels are generated
  std::string source_dir = {};  // a folder for each function's source
};

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const Function& function, int device, const CompileOptions& options,
                 const ExecutableOptions& own);
  ~CudaExecutable() override;

  ExecutableInfo info() const override;
  std::unique_ptr<RunContext> create_context() const override;
  void run(const RunArgs& args) const override;

 private:
  class Context;

  // What a library computes; by the position of its step.
  struct Library {
    std::unique_ptr<Product> product;
    std::unique_ptr<Convolution> convolution;
    std::size_t way_count() const;
    void choose(std::size_t way) const;
    std::size_t workspace_bytes() const;
    void queue(const Addresses& addresses, void* workspace, void* stream) const;
  };

  void make_plan(const Function& function);
  bool make_libraries(struct PlanOptions& plan_options);
  void load_constants(void* stream);
  void measure_ways(const CompileOptions& options, void* stream);
  void* address(const View& view, void* arena) const;
  void queue_step(std::size_t step, void* arena, void* workspace, void* stream) const;
  void queue_steps(bool once, void* arena, void* workspace, void* stream) const;
  void check_input(std::size_t index, const TensorView& tensor) const;

  int device_;
  ExecutableOptions options_;
  Plan plan_;
  std::unique_ptr<Module> module_;
  std::map<std::string, void*> kernels_;
  std::map<std::size_t, Library> libraries_;
  std::shared_ptr<void> constants_, loading_;
  std::size_t workspace_bytes_ = 0;
  // Descriptions of products hold addresses while their steps are queued.
  mutable std::mutex queue_mutex_;
};

}  // namespace xrt::cuda
