// SPDX-License-Identifier: Apache-2.0
// A compiled function of the native engine: kernels in topological order and a memory plan.
//
// Values whose shapes are known lie at fixed places of one arena per context, shared by values
// that do not live at the same time; all others get memory when they are written and give it back
// after their last use. Bodies of If, Loop and Scan are executables of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "engines/native/context.h"
#include "engines/native/kernel.h"
#include "engines/native/step_profile.h"
#include "ir/flat.h"
#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::native {

// A deep copy.
Data clone_data(const Data& data);

class NativeExecutable final : public Executable {
 public:
  NativeExecutable(const Graph& graph, const KernelRegistry& registry,
                   const CompileOptions& options, std::shared_ptr<const Threads> threads,
                   std::span<const InputOutputAlias> aliases = {});
  // From serialize()'s blob, parts of which are used in place.
  NativeExecutable(const Tensor& blob, const KernelRegistry& registry,
                   const CompileOptions& options, std::shared_ptr<const Threads> threads,
                   std::span<const InputOutputAlias> aliases);

  ExecutableInfo info() const override;
  std::unique_ptr<RunContext> create_context() const override;
  void run(const RunArgs& args) const override;
  // The same; a null context: one is made for this run.
  void run(RunContext* context, std::span<const Data> inputs, std::span<Data> outputs) const;
  // As a body inside another executable's run. `uses`: of each input. Those that are given may be
  // empty afterwards.
  void run_body(RunContext& context, std::span<Data> inputs, std::span<const InputUse> uses,
                std::span<Data> outputs) const;
  std::size_t weight_bytes() const;
  std::optional<std::string> serialize() const override;

 private:
  struct Step {
    std::unique_ptr<const Kernel> kernel;
    std::vector<std::int32_t> inputs;     // slots; -1: left out
    std::size_t own_inputs = 0;           // the node's; captures of its bodies follow
    std::vector<std::int32_t> outputs;    // slots; -1: left out
    std::vector<std::int32_t> releases;   // dynamic slots whose last use this is
    std::vector<std::uint8_t> last_uses;  // by input: nothing else reads the value
    std::string label;                    // "node 'name' (Op)", for errors
    bool writes_text = false;             // an output has strings
  };
  // A function output that is not written where it is returned: an input, a constant, a value
  // that is returned twice, or one whose memory is also that of an input.
  struct OutputCopy {
    std::int32_t slot;
    std::int32_t output;
  };

  // `stored`: by step, where the function comes from a blob.
  void build(const Graph& graph, const KernelRegistry& registry, const CompileOptions& options,
             std::span<const InputOutputAlias> aliases, std::vector<StoredWeights> stored = {});
  void make_kernels(const Graph& graph, const KernelRegistry& registry,
                    const CompileOptions& options, std::span<const InputOutputAlias> aliases,
                    std::vector<StoredWeights>& stored);
  void describe_for_blob(const Graph& graph, std::span<const InputOutputAlias> aliases);
  // Whether the output may be written into the memory of the input that it is aliased to: the step
  // that writes it is the last that reads the input, and reads each element before it writes it.
  bool can_overwrite(const Graph& graph, std::int32_t input, std::int32_t output) const;
  void keep_constant(const Graph& graph, std::int32_t slot);
  // `retained`: slots whose memory may be held by what a kernel made of them.
  void plan_memory(const Graph& graph, std::vector<bool> retained);
  // By input and step, once it is known which step reads a value last.
  void note_last_uses(const std::vector<std::int32_t>& last);
  void check_counts(std::size_t inputs, std::size_t outputs) const;
  // Inputs are set. `copies`: outputs that share memory with another value get their own.
  void run_prepared(NativeContext& native, std::span<Data> outputs, bool copies) const;
  void run_inside(NativeContext& context, const Threads& threads) const;
  void run_steps(NativeContext& context) const;
  [[noreturn]] static void rethrow(const Step& step);
  // What strings the step wrote is in the run's bound on memory from now on.
  static void settle_text(const Step& step, const NativeContext& native);

  std::shared_ptr<const Threads> threads_;
  bool side_by_side_;  // each run has threads of its own
  std::vector<Step> steps_;
  std::vector<SlotPlan> slots_;
  std::vector<std::int32_t> input_slots_;
  std::vector<std::int32_t> output_slots_;  // -1: in copies_
  std::vector<OutputCopy> copies_;
  std::vector<std::int32_t> dropped_;  // slots that are empty between runs
  std::size_t arena_bytes_ = 0;
  mutable ForkMutex blob_mutex_;
  std::unique_ptr<FlatWriter> blob_;  // what serialize() writes: small, but for what kernels hold
  std::unique_ptr<StepProfile> profile_;  // only where one is wanted
  bool uses_arena_ = false;
  std::vector<std::string> remarks_;
};

}  // namespace xrt::native
