// SPDX-License-Identifier: Apache-2.0
// A plan: one graph with its input shapes fixed (where they are), partitioned, compiled and laid
// out in memory. Immutable but for its statistics; many threads run it at once, each with a
// RunState from the plan's pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "device/thread_gate.h"
#include "exec/index_checks.h"
#include "exec/profiler.h"
#include "xrt/engine.h"
#include "xrt/engine_workspace.h"
#include "xrt/explanation.h"
#include "xrt/options.h"

namespace xrt {

class ControlFlow;
struct Decision;
struct Placement;
struct PlanDraft;
class Survey;

// An engine could not compile a function that it had claimed.
class CompileFailure : public Error {
 public:
  CompileFailure(ErrorCode code, const std::string& message, std::string failed_engine,
                 std::vector<std::string> claimed, std::string why)
      : Error(code, message),
        engine(std::move(failed_engine)),
        nodes(std::move(claimed)),
        reason(std::move(why)) {}
  std::string engine;
  std::vector<std::string> nodes;  // of the function
  std::string reason;
};

class Plan {
 public:
  // Partitions and compiles the survey's graph, which has inferred types, by its options. `scope`
  // precedes the launches' names in traces: where the plan is that of a body, it names the body.
  // Where a function cannot be compiled and options.fallback is set, its nodes are refused in the
  // survey and placed again; else throws CompileFailure. `kept` gets the draft.
  static std::shared_ptr<Plan> build(Survey& survey, const Decision& decision,
                                     const std::string& scope = {}, PlanDraft* kept = nullptr);
  // The two halves of build(): all that comes before compiling, and the rest. finish() fills in
  // draft.keys where they are missing; `options` are those of the survey.
  static PlanDraft draft(Survey& survey, const Decision& decision, const std::string& scope = {});
  static std::shared_ptr<Plan> finish(PlanDraft& draft, const ProgramOptions& options,
                                      const std::string& scope = {});
  ~Plan();

  // `inputs` are complete and checked. `outputs` has one entry per graph output: a tensor to write
  // into, or none: then it is given out on the device of the options with `device_results`, else
  // on the host.
  void run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
           bool device_results = false);

  Explanation explain() const;
  // What placement found out after this plan was built. Not while another thread may read it;
  // statistics begin anew.
  void annotate(const Decision& decision);

  // The dimensions of an output, or null where they are known only after a run.
  const Dims* output_dims(std::size_t output) const;
  // Scratch memory of one run.
  std::size_t workspace_bytes() const;

 private:
  // Where a value of the launch graph lives.
  enum class Place : std::uint8_t { kInput, kConstant, kArena, kDynamic, kOutput };

  struct Slot {
    Place place = Place::kDynamic;
    Type type;
    std::size_t index = 0;     // which program input, program output or arena buffer
    bool preallocate = false;  // a tensor of static shape whose memory we can provide
    // Made on a device where another launch reads it: it stays there.
    bool stays_on_device = false;
    DType dtype = DType::kUndefined;
    Dims dims;
    Tensor constant;
    std::size_t offset = 0;                                    // kArena
    std::vector<std::pair<std::size_t, std::size_t>> readers;  // (launch, input position)
  };

  struct Launch {
    std::string name, engine, traced_name;
    std::shared_ptr<const Executable> executable;
    std::shared_ptr<const ControlFlow> control_flow;  // the executable where it is one
    Device device;                                    // of the executable
    std::vector<std::size_t> inputs, outputs;         // slots
    // Input and output of the launch that share memory: a program's alias within one function.
    std::vector<InputOutputAlias> aliases;
    std::vector<IndexCheck> index_checks;  // of engines that do not look at them
    LaunchUse threads;    // of a run, on the CPU; 0 threads: it takes none of the budget
    std::size_t row = 0;  // in explanation_.launches
    std::atomic<std::int64_t> runs{0}, first_ns{0}, later_ns{0};
  };

  struct OutputSource {
    std::size_t slot = 0;
    bool copy = false;  // an input, a constant or a second output of one value: copied out
  };

  struct RunState;
  class Lease;

  void assign_slots(const Graph& folded, const std::string& scope);
  // Which values stay on the device that makes them.
  void assign_devices();
  void plan_memory();
  // The program's aliases that one launch can carry out by itself, for engines that work in place.
  void assign_aliases();
  [[noreturn]] void fail_launch(const Launch& launch, const std::string& cause) const;
  void check_outputs(const Launch& launch, const std::vector<Data>& ports) const;
  void compile(PlanDraft& draft, const ProgramOptions& options, const std::string& scope);
  void check_workspace_known(const Launch& launch);
  static LaunchUse thread_use(const Launch& launch, const CompileOptions& options);
  // Whether all that a run on a device does is a launch that can be queued behind others' work.
  bool follows_stream() const;
  std::unique_ptr<RunState> make_state() const;
  void run_launch(std::size_t index, RunState& state, std::span<Data> outputs, Profiler& profiler,
                  std::uint64_t run_number, bool device_results, void* stream);
  void prepare_outputs(std::size_t index, RunState& state, std::span<Data> outputs,
                       bool device_results);
  void copy_output(std::size_t index, const Data& source, Data& target) const;
  void give_to_readers(const Slot& slot, const Data& value, RunState& state) const;
  void hand_out(const Launch& launch, std::size_t index, RunState& state, std::span<Data> outputs);
  [[noreturn]] void fail_output(std::size_t output, std::string_view verb, DType dtype,
                                const Dims& dims) const;

  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<OutputSource> outputs_;
  std::vector<std::string> output_names_;
  std::vector<std::pair<std::size_t, std::size_t>> aliases_;  // program input and output
  std::vector<std::size_t> input_slots_;                      // program input → slot
  std::size_t arena_bytes_ = 0;
  Device device_;  // of the options
  bool follows_stream_ = false;
  Explanation explanation_;

  std::mutex pool_mutex_;
  std::vector<std::unique_ptr<RunState>> pool_;
};

}  // namespace xrt
