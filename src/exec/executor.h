// SPDX-License-Identifier: Apache-2.0
// An executor: a plan, compiled and laid out in memory, ready to run. Immutable but for its
// statistics; many threads run it at once, each with a RunState from its pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/fork_mutex.h"
#include "base/work_scope.h"
#include "device/thread_gate.h"
#include "exec/least_memory.h"
#include "exec/least_time.h"
#include "exec/profiler.h"
#include "exec/run_record.h"
#include "exec/value_checks.h"
#include "xrt/engine.h"
#include "xrt/explanation.h"
#include "xrt/options.h"

namespace xrt {

class ControlFlow;
struct Decision;
struct Plan;
class StandIn;
class Survey;

class Executor {
 public:
  // Plans the survey's graph (plan/plan.h) and compiles it. `scope` precedes the launches' names in
  // traces: where the graph is that of a body, it names the body. Where a function cannot be
  // compiled and options.fallback is set, its nodes are refused in the survey and placed again;
  // else throws CompileFailure. `kept` gets the plan.
  static std::shared_ptr<Executor> build(Survey& survey, const Decision& decision,
                                         const std::string& scope = {}, Plan* kept = nullptr);
  // Compiles a plan; fills in plan.keys where they are missing. `options` are those that it was
  // made with.
  static std::shared_ptr<Executor> finish(Plan& plan, const ProgramOptions& options,
                                          const std::string& scope = {});
  ~Executor();

  // `inputs` are complete and checked. `outputs` has one entry per graph output: a tensor to write
  // into, or none: then it is given out on the device of the options with `device_results`, else
  // on the host. `record`, if given, gets what functions of engines other than the fallback, and
  // those that are rounded to half precision, read and wrote; those of bodies that the runtime
  // drives are left out.
  void run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
           bool device_results = false, RunRecord* record = nullptr);
  // Whether there is something to record.
  bool has_checked_functions() const;

  Explanation explain() const;
  // What placement found out after this plan was built. Not while another thread may read it;
  // statistics begin anew.
  void annotate(const Decision& decision);

  // The dimensions of an output, or null where they are known only after a run.
  const Dims* output_dims(std::size_t output) const;
  // Scratch memory of one run.
  std::size_t workspace_bytes() const;
  // What the program is to log, each once; those of a body are logged already.
  const std::vector<std::string>& warnings() const { return warnings_; }

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
    std::string key;                     // compile_key() of the function
    std::shared_ptr<const Graph> graph;  // the function
    // One of the two: what an engine compiled, or control flow that the runtime drives.
    std::shared_ptr<const Executable> executable;
    std::shared_ptr<const ControlFlow> control_flow;
    ExecutableInfo info;
    Device device;                             // of the executable
    std::vector<std::size_t> inputs, outputs;  // slots
    // Input and output of the launch that share memory: a program's alias within one function.
    std::vector<InputOutputAlias> aliases;
    std::unique_ptr<ValueChecks> value_checks;  // where there is something to look at; or null
    std::unique_ptr<StandIn> stand_in;  // for inputs that the engine is not to have; or null
    ThreadUse threads{.threads = 0};    // of a run; 0: it takes none of the budget
    bool is_isolated = false;           // runs in a worker: src/isolation
    bool is_rounded = false;            // computes in half precision by casts
    LeastTime least_time;               // where sizes are known before a run
    LeastMemory least_memory;           // likewise, of an engine that does not tell its own
    std::size_t row = 0;                // in explanation_.launches
    std::atomic<std::int64_t> runs{0}, first_ns{0}, later_ns{0};

    // Whether what it gives may differ from what the fallback engine computes in float32.
    bool is_checked() const;
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
  [[noreturn]] void fail_bound(const Launch& launch, const std::string& cause) const;
  void account_for_workspace(const Launch& launch, std::int64_t taken,
                             MemoryAccount& account) const;
  void check_outputs(const Launch& launch, const std::vector<Data>& ports) const;
  void compile(Plan& plan, const ProgramOptions& options, const std::string& scope);
  void check_room(const Launch& launch, const LeastMemory& least) const;
  void check_workspace_known(const Launch& launch);
  static std::size_t workspace_bytes(const Launch& launch);
  // Whether all that a run on a device does is a launch that can be queued behind others' work.
  bool follows_stream() const;
  std::unique_ptr<RunState> make_state() const;
  // Says why the engine does not compute these inputs, where another one is to; else nothing.
  std::optional<std::string> run_executable(std::size_t index, RunState& state, void* stream) const;
  void run_launch(std::size_t index, RunState& state, std::span<Data> outputs, Profiler& profiler,
                  std::uint64_t run_number, bool device_results, void* stream, RunRecord* record);
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
  std::size_t most_bytes_ = 0;  // of one run
  Device device_;               // of the options
  bool follows_stream_ = false;
  Explanation explanation_;
  std::vector<std::string> warnings_;

  ForkMutex pool_mutex_;
  std::vector<std::unique_ptr<RunState>> pool_;
};

}  // namespace xrt
