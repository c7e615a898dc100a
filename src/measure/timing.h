// SPDX-License-Identifier: Apache-2.0
// Timing of plans that stand beside each other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "measure/pace.h"
#include "xrt/graph.h"

namespace xrt {

// A plan being timed.
class TimedPlan {
 public:
  // `graph` is what the plan was built from; it and the inputs outlive this object.
  TimedPlan(std::shared_ptr<Executor> plan, const Graph& graph, const ProgramOptions& options,
            std::span<const Data> inputs);

  enum class Keep { kNot, kSample };
  // One run, and its time in microseconds.
  double run(Keep keep);
  // Runs until what ran before no longer matters, then some samples: their median, in microseconds.
  double turn();
  // The median of the samples, in microseconds; 0 where there are none.
  double us() const;
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
  std::vector<double> samples_;
  double total_us_ = 0;
  Profiler profiler_;
};

// Runs all of them in turns of a few runs, so that drift of the machine meets them alike: at least
// `minimum` rounds, then more until `seconds` are spent or `maximum` is reached. Ends early where
// the pace is stopped.
void time_in_turns(std::span<TimedPlan* const> plans, int minimum, int maximum, double seconds,
                   Pace& pace);

}  // namespace xrt
