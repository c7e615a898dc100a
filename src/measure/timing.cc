// SPDX-License-Identifier: Apache-2.0
#include "measure/timing.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/interrupt.h"
#include "device/thread_gate.h"
#include "device/threads.h"

namespace xrt {
namespace {

// A turn: after another plan, whose threads may still wait for work in a loop, runs do not count
// for this long; then as many count as fit in the time, at least one. To a plan that takes longer
// than kSlowUs the one before makes no difference.
constexpr double kSettlingUs = 1e3, kTurnUs = 6e3, kSlowUs = 20e3;
constexpr std::size_t kMostRuns = 20;

// What a launch takes that runs alone.
ThreadUse all_threads() { return {.threads = thread_budget()}; }

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

void TimedPlan::run() {
  const ThreadGate::Pass alone(ThreadGate::process(), all_threads());
  timed_run();
}

double TimedPlan::timed_run() {
  throw_if_interrupted();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!reused_[i]) outputs_[i] = Data{};
  }
  const auto start = Profiler::Clock::now();
  plan_->run(inputs_, outputs_, profiler_);
  return std::chrono::duration<double, std::micro>(Profiler::Clock::now() - start).count();
}

double TimedPlan::turn() {
  const ThreadGate::Pass alone(ThreadGate::process(), all_threads());
  if (us() < kSlowUs) {
    double settled_us = 0;
    for (std::size_t i = 0; i < kMostRuns && settled_us < kSettlingUs; ++i) {
      settled_us += timed_run();
    }
  }
  std::vector<double> samples;
  double counted_us = 0;
  do {
    samples.push_back(timed_run());
    counted_us += samples.back();
  } while (samples.size() < kMostRuns && counted_us < kTurnUs);
  total_us_ += counted_us;
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  return median(std::move(samples));
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
      plan->turn();
    }
  }
}

}  // namespace xrt
