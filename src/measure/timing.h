// SPDX-License-Identifier: Apache-2.0
// Timing of plans that stand beside each other. While one is timed no other launch of the process
// runs: engines whose launches share threads would slow each other down, some more than others.
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

  // One run whose time does not count.
  void run();
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
  double timed_run();  // in microseconds

  std::shared_ptr<Executor> plan_;
  std::span<const Data> inputs_;
  std::vector<Data> outputs_;
  std::vector<bool> reused_;  // outputs whose memory serves the next run, as a caller's would
  std::vector<double> samples_;
  double total_us_ = 0;
  Profiler profiler_;
};

// Times all of them in turns, so that drift of the machine meets them alike: at least `minimum`
// rounds, then more until `seconds` are spent or `maximum` is reached. Ends early where the pace is
// stopped.
void time_in_turns(std::span<TimedPlan* const> plans, int minimum, int maximum, double seconds,
                   Pace& pace);

}  // namespace xrt
