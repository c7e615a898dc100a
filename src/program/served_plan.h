// SPDX-License-Identifier: Apache-2.0
// The plan that serves one set of input shapes, and how it comes to be: as named, by estimates, by
// measuring first, or by measuring beside the runs and swapping the better plan in.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "exec/executor.h"
#include "exec/run_record.h"
#include "placement/decision.h"
#include "plan/plan.h"
#include "program/refiner.h"
#include "program/result_check.h"
#include "program/run_sampler.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

// What a plan is made of. Measuring beside the runs may need it after the program has gone.
struct PlanSource {
  std::function<std::shared_ptr<const Graph>()> graph;  // with inferred types
  std::shared_ptr<const ProgramOptions> options;
  std::shared_ptr<Refining> refining;
  // Drops what the disk cache keeps of a plan that was only estimated; may be empty.
  std::function<void()> forget = {};
  // Of a plan with open dimensions: who runs the program at fixed sizes. Placement by estimates,
  // which look at sizes, takes it over where all its engines take any size.
  std::optional<Decision> like = {};
  bool is_open = false;   // whether it has open dimensions
  std::string note = {};  // for explain(), where it is not empty
};

class ServedPlan : public std::enable_shared_from_this<ServedPlan> {
 public:
  // Builds what can be run at once. `inputs` are those of the run that wants the plan, empty where
  // there is none yet. `kept`, if given, gets the plan to keep in the disk cache.
  static std::shared_ptr<ServedPlan> build(PlanSource source, std::span<const Data> inputs,
                                           Plan* kept = nullptr);
  // Serves a plan from the disk cache.
  static std::shared_ptr<ServedPlan> of(Plan& kept, PlanSource source);

  // As Executor::run. Where there is something to measure copies of inputs are taken, and handed
  // over.
  void run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
           bool device_results);
  Explanation explain() const;
  // Bytes that it holds as long as it is kept, as its executables say: weights, and the scratch
  // memory of one run.
  std::size_t held_bytes() const;
  // Which engines run it now.
  Decision decision() const;

 private:
  // The check of what the functions of other engines compute (program/result_check.h): the first
  // run of a plan is recorded, the second one sets off the check, beside it.
  enum class Check : std::uint8_t { kOff, kRecord, kRecording, kRecorded, kDone };

  std::shared_ptr<Executor> plan() const;
  void serve(std::shared_ptr<Executor> plan, Decision decision);
  void run_recorded(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                    bool device_results);
  void begin_check();
  // Compares, and where a function is wrong serves a plan without it.
  void check(const std::shared_ptr<Executor>& plan, const RunRecord& record,
             const Refiner::Stop& stop);
  // Warns of what a check has found, and changes the decision where a plan without it can be made:
  // true if there is one to be built.
  bool amends(const ResultCheck& found, Decision& decision) const;
  void start(std::shared_ptr<Executor> plan, Decision decision);
  void serve_run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                 bool device_results);
  // What is to be measured once the run has ended; nothing for most runs.
  std::optional<RunSampler::Sample> begin_sample(std::span<const Data> inputs);
  void hand_over();
  // Measures, and swaps the winner in: runs that have begun end on the plan they began with.
  void refine(const Workload& workload, const Refiner::Stop& stop);
  void end_refining(std::string trouble);

  PlanSource source_;
  std::atomic<bool> wants_refining_{false};
  std::unique_ptr<RunSampler> sampler_;  // where the plan is to be measured beside the runs
  mutable ForkMutex mutex_;
  std::shared_ptr<Executor> plan_;  // never null after build()
  Decision decision_;               // that plan_ was made by
  std::atomic<Check> check_{Check::kOff};
  std::shared_ptr<const RunRecord> record_;
  std::vector<std::string> check_notes_;
  bool refining_ = false;  // until the outcome is there
  std::string trouble_;    // why there is none
};

}  // namespace xrt
