// SPDX-License-Identifier: Apache-2.0
// Timing of plans that stand beside each other. While one is timed no other launch of the process
// runs: engines whose launches share threads would slow each other down, some more than others.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "measure/pace.h"
#include "measure/workload.h"
#include "xrt/graph.h"

namespace xrt {

// A plan being timed.
class TimedPlan {
 public:
  // `graph` is what the plan was built from; it and the workload outlive this object.
  TimedPlan(std::shared_ptr<Executor> plan, const Graph& graph, const ProgramOptions& options,
            const Workload& workload);

  // Each run of the workload for the first time.
  void run();
  // Some samples, each the mean over the workload's runs: their median, in microseconds, with what
  // new sizes add to it. Where the workload has pauses each run begins after one; otherwise what
  // ran before is run over first.
  double turn();
  // The same of all samples; 0 where there are none.
  double us() const;
  double total_us() const { return total_us_; }  // of all samples
  void forget();                                 // all samples
  // What the first run of new sizes took, where it is known from runs of users.
  void set_first_us(const std::vector<double>& first_us) { first_us_ = first_us; }
  // Of the last run.
  const std::vector<Data>& outputs() const { return outputs_; }
  const std::shared_ptr<Executor>& plan() const { return plan_; }

 private:
  class Hold;

  double timed_run(std::span<const Data> inputs);  // in microseconds
  double sample(Hold& hold);                       // a pass over the workload
  void settle(std::span<const Data> inputs);       // until what ran before no longer matters
  void rest() const;                               // the workload's pause
  bool rests() const;                              // whether there is one that matters
  double with_new_sizes(double us) const;

  std::shared_ptr<Executor> plan_;
  const Workload& workload_;
  std::vector<Data> outputs_;
  std::vector<bool> reused_;  // outputs whose memory serves the next run, as a caller's would
  std::vector<double> samples_, first_us_;
  double total_us_ = 0;
  Profiler profiler_;
};

// Times all of them in turns, so that drift of the machine meets them alike: at least `minimum`
// rounds, then more until `seconds` are spent or `maximum` is reached. Ends early where the pace is
// stopped.
void time_in_turns(std::span<TimedPlan* const> plans, int minimum, int maximum, double seconds,
                   Pace& pace);

}  // namespace xrt
