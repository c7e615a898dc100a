// SPDX-License-Identifier: Apache-2.0
// The plan that serves one set of input shapes, and how it comes to be: as named, by estimates, by
// measuring first, or by measuring beside the runs and swapping the better plan in.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "exec/executor.h"
#include "placement/decision.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {

class Refiner;
class Survey;

// What measuring has cost a program so far. A program with symbolic shapes would else measure for
// every new shape as long as it lives.
class MeasuringAccount {
 public:
  // The latest outcome, once `budget_s` is spent: what other shapes of the program get.
  std::optional<Decision> settled(double budget_s) const;
  void book(double seconds, const Decision& outcome);

 private:
  mutable std::mutex mutex_;
  double spent_s_ = 0;
  std::optional<Decision> last_;
};

// Who shall run what, as far as that is known before the first run returns: by the user's names, by
// what was measured earlier, by measuring now (AutoMode::kFull, or the precision is to be chosen),
// by estimates.
struct Choice {
  Decision decision;
  std::shared_ptr<Executor> plan;  // where it was built on the way
};
// `inputs` are those of the run that wants the plan, empty where there is none yet.
Choice choose(Survey& survey, std::span<const Data> inputs, MeasuringAccount& account);

class ServedPlan : public std::enable_shared_from_this<ServedPlan> {
 public:
  // Builds what can be run at once. `inputs` are those of the run that wants the plan, empty where
  // there is none yet. `refiner` is asked for help in AutoMode::kBackground; it and the options
  // outlive this object.
  static std::shared_ptr<ServedPlan> build(std::shared_ptr<const Graph> graph,
                                           const ProgramOptions& options,
                                           std::span<const Data> inputs, Refiner& refiner);

  // Serves a plan that is made already and is not to be refined.
  static std::shared_ptr<ServedPlan> of(std::shared_ptr<Executor> plan);

  // As Plan::run. The first run hands its inputs to the refiner, if there is something to refine.
  void run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
           bool device_results);
  Explanation explain() const;

 private:
  friend class Refiner;

  std::shared_ptr<Executor> plan() const;
  // Measures, and swaps the winner in: runs that have begun end on the plan they began with.
  void refine(std::span<const Data> inputs, const std::atomic<bool>& stop);

  std::shared_ptr<const Graph> graph_;
  const ProgramOptions* options_ = nullptr;
  Refiner* refiner_ = nullptr;
  std::atomic<bool> wants_refining_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<Executor> plan_;  // never null after build()
};

// One per program: a thread that measures plans, started when there is one to measure.
class Refiner {
 public:
  Refiner() = default;
  // Waits for the run or the compilation under way.
  ~Refiner();
  Refiner(const Refiner&) = delete;
  Refiner& operator=(const Refiner&) = delete;

  void add(std::weak_ptr<ServedPlan> plan, std::vector<Data> inputs);
  MeasuringAccount& account() { return account_; }

 private:
  struct Job {
    std::weak_ptr<ServedPlan> plan;
    std::vector<Data> inputs;
  };
  void work();

  MeasuringAccount account_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace xrt
