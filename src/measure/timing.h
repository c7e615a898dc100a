// SPDX-License-Identifier: Apache-2.0
// Timing of plans that stand beside each other.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "xrt/graph.h"

namespace xrt {

// A plan being timed.
class TimedPlan {
 public:
  // `graph` is what the plan was built from; it and the inputs outlive this object.
  TimedPlan(std::shared_ptr<Executor> plan, const Graph& graph, const ProgramOptions& options,
            std::span<const Data> inputs);

  // What a run's time is good for: nothing, the first run after another plan's, any other.
  enum class Keep { kNot, kFirst, kSample };
  void run(Keep keep);
  // Runs until what ran before no longer matters, then some samples: their median, in microseconds.
  double turn();
  // The median of the samples, in microseconds; 0 where there are none.
  double us() const;
  // The same of first runs: caches are cold, and the engine's threads asleep.
  double first_us() const;
  double total_us() const { return total_us_; }  // of all samples
  void forget();                                 // all times
  // Of the last run.
  const std::vector<Data>& outputs() const { return outputs_; }
  const std::shared_ptr<Executor>& plan() const { return plan_; }

 private:
  std::shared_ptr<Executor> plan_;
  std::span<const Data> inputs_;
  std::vector<Data> outputs_;
  std::vector<bool> reused_;  // outputs whose memory serves the next run, as a caller's would
  std::vector<double> samples_, firsts_;
  double total_us_ = 0;
  Profiler profiler_;
};

// Runs all of them in turns of a few runs, so that drift of the machine meets them alike: at least
// `minimum` rounds, then more until `seconds` are over or `maximum` is reached. Ends early once
// `stop` answers true.
void time_in_turns(std::span<TimedPlan* const> plans, int minimum, int maximum, double seconds,
                   const std::function<bool()>& stop);

}  // namespace xrt
