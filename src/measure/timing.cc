// SPDX-License-Identifier: Apache-2.0
#include "measure/timing.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/interrupt.h"
#include "device/thread_gate.h"

namespace xrt {
namespace {

constexpr int kRunsPerTurn = 2;
// A turn of a contest: after another plan, whose threads may still wait for work in a loop, runs do
// not count for this long; then as many count as fit in the time, at least one. To a plan that
// takes longer than kSlowUs the one before makes no difference.
constexpr double kSettlingUs = 1e3, kTurnUs = 6e3, kSlowUs = 20e3;
constexpr int kMostRuns = 20;

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace

TimedPlan::TimedPlan(std::shared_ptr<Executor> plan, const Graph& graph,
                     const ProgramOptions& options, std::span<const Data> inputs)
    : plan_(std::move(plan)), inputs_(inputs), outputs_(graph.outputs().size()) {
  for (const ValueId v : graph.outputs()) {
    const Type& type = graph.type(v);
    const bool aliased =
        std::any_of(options.aliases.begin(), options.aliases.end(),
                    [&](const auto& pair) { return pair.second == graph.value(v).name; });
    reused_.push_back(type.is_static() && type.dtype != DType::kString && !aliased);
  }
}

double TimedPlan::run(Keep keep) {
  throw_if_interrupted();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!reused_[i]) outputs_[i] = Data{};
  }
  // Other programs of this process may have the threads for a while: that is not the plan's time.
  const auto waited = ThreadGate::waited();
  const auto start = Profiler::Clock::now();
  plan_->run(inputs_, outputs_, profiler_);
  const std::chrono::duration<double, std::micro> us =
      Profiler::Clock::now() - start - (ThreadGate::waited() - waited);
  if (keep == Keep::kSample) {
    samples_.push_back(us.count());
    total_us_ += us.count();
  }
  return us.count();
}

double TimedPlan::turn() {
  const double start = total_us_;
  if (us() < kSlowUs) {
    double settled_us = 0;
    for (int i = 0; i < kMostRuns && settled_us < kSettlingUs; ++i) {
      settled_us += run(Keep::kNot);
    }
  }
  const std::size_t first = samples_.size();
  const auto runs = [&] { return samples_.size() - first; };
  do {
    run(Keep::kSample);
  } while (runs() < kMostRuns && total_us_ - start < kTurnUs);
  return median({samples_.begin() + static_cast<std::ptrdiff_t>(first), samples_.end()});
}

void TimedPlan::forget() {
  samples_.clear();
  total_us_ = 0;
}

double TimedPlan::us() const { return median(samples_); }

void time_in_turns(std::span<TimedPlan* const> plans, int minimum, int maximum, double seconds,
                   Pace& pace) {
  const double end = pace.spent() + seconds;
  for (int round = 0; round < maximum; ++round) {
    if (round >= minimum && pace.spent() > end) return;
    if (pace.stopped()) return;
    for (TimedPlan* plan : plans) {
      pace.take_break();
      // The first run of a turn finds caches cold, and threads of the plan before still waiting
      // for work in a loop: a program that serves alone knows neither.
      if (plans.size() > 1) plan->run(TimedPlan::Keep::kNot);
      for (int i = 0; i < kRunsPerTurn; ++i) plan->run(TimedPlan::Keep::kSample);
    }
  }
}

}  // namespace xrt
