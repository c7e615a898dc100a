// SPDX-License-Identifier: Apache-2.0
// A function on a device: its constants and its code are there once, each run has an arena of its
// own. The first run of an arena queues step by step; then the steps are recorded, and further runs
// queue them as one CUDA graph, between copies of inputs to the arena and of results from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/compute.h"
#include "engines/cuda/computation.h"
#include "engines/cuda/plan.h"
#include "xrt/engine.h"
#include "xrt/tensor.h"

namespace xrt::cuda {

struct ExecutableOptions {
  bool tf32 = false;            // float32 in products and convolutions may be rounded to TF32
  bool graph = true;            // record the steps
  bool measure = true;          // time the ways of NVIDIA's libraries
  bool use_libraries = true;    // else all kernels are generated
  std::string source_dir = {};  // a folder for each function's source
};

// What compiling finds out, for a function that is loaded again: the code, which nodes the
// libraries refuse, and the ways of those steps that they compute.
struct Compiled {
  std::vector<std::string> codes;            // of the generated kernels, in several modules
  std::set<std::string> generated, unfused;  // as in PlanOptions
  std::map<std::size_t, std::string> ways;   // by step
};

class CudaExecutable final : public Executable {
 public:
  // Compiles the function.
  CudaExecutable(const Function& function, int device, const CompileOptions& options,
                 const ExecutableOptions& own);
  // From serialize()'s bytes. Throws kEngine where they are of another function, device or library.
  CudaExecutable(const Function& function, int device, const ExecutableOptions& own,
                 const Tensor& blob);
  ~CudaExecutable() override;

  ExecutableInfo info() const override;
  std::unique_ptr<RunContext> create_context() const override;
  void run(const RunArgs& args) const override;
  std::optional<std::string> serialize() const override;

 private:
  class Context;

  struct PlanOptions plan_options() const;
  // The plan of what the libraries do not refuse as far as it is known.
  void plan_once(const Function& function);
  void make_plan(const Function& function);
  bool make_computations();
  // Of the step by a library, or of kernels among which there is a choice; null where there is
  // none.
  std::unique_ptr<Computation> make_computation_of(std::size_t step, std::string_view saved);
  void load_code();
  std::string key_of_constants() const;
  void load_constants(void* stream);
  void make_constants(void* stream);
  void find_workspace();
  std::string key() const;
  void measure_ways(const CompileOptions& options, void* stream);
  // Steps that are like one whose way is chosen.
  void choose_alike();
  // Where direct inputs and results lie; null where steps are only timed.
  struct Border {
    std::vector<void*> inputs, results;
    bool operator==(const Border&) const = default;
  };
  void* address(const View& view, void* arena, const Border* border = nullptr) const;
  void launch(const Step& step, const std::string& kernel, const Grid& grid,
              const Addresses& addresses, void* stream) const;
  void queue_step(std::size_t step, void* arena, void* workspace, void* stream,
                  const Border* border = nullptr) const;
  // All that make constants, all others but direct ones, or those.
  enum class Which : std::uint8_t { kOnce, kRecorded, kDirect };
  void queue_steps(Which which, void* arena, void* workspace, void* stream,
                   const Border* border = nullptr) const;
  // Direct steps: one by one, or as the graph of a border that comes again.
  void queue_direct(Context& own, const Border& border, void* stream) const;
  void check_input(std::size_t index, const TensorView& tensor) const;

  int device_;
  ExecutableOptions options_;
  Plan plan_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, void*> kernels_;
  Compiled compiled_;
  std::map<std::size_t, std::unique_ptr<Computation>> computations_;  // by step
  // While the function is compiled: a step, and the first one of the same description.
  std::map<std::size_t, std::size_t> alike_;
  std::shared_ptr<void> constants_, loading_;
  std::size_t workspace_bytes_ = 0;
  // Descriptions of products hold addresses while their steps are queued.
  mutable std::mutex queue_mutex_;
};

}  // namespace xrt::cuda
