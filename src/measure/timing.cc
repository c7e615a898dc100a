// SPDX-License-Identifier: Apache-2.0
#include "measure/timing.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
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
constexpr double kHoldUs = 3e3;
constexpr std::size_t kMostRuns = 20;
// No engine's threads wait in a loop for longer than kWaitingLoop after a run: a longer pause finds
// them asleep, and one of kLongestRest is as good as any longer one.
constexpr std::chrono::milliseconds kWaitingLoop{1}, kLongestRest{5};
constexpr std::size_t kRunsAfterRests = 8;  // of a turn, at most
// Sizes that are new come again in a program that lives: what the first run of them takes more
// counts as if they came so many times.
constexpr double kUsesOfASize = 4;

// What a launch takes that runs alone.
ThreadUse all_threads() { return {.threads = thread_budget()}; }

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace

// The time in which no other launch runs: others wait no longer than kHoldUs, or one run.
class TimedPlan::Hold {
 public:
  bool is_over() const {
    return !alone_ ||
           std::chrono::duration<double, std::micro>(Profiler::Clock::now() - start_).count() >
               kHoldUs;
  }
  void end() { alone_.reset(); }
  void renew() {
    end();
    alone_.emplace(ThreadGate::process(), all_threads());
    start_ = Profiler::Clock::now();
  }

 private:
  std::optional<ThreadGate::Pass> alone_;
  Profiler::Clock::time_point start_;
};

TimedPlan::TimedPlan(std::shared_ptr<Executor> plan, const Graph& graph,
                     const ProgramOptions& options, const Workload& workload)
    : plan_(std::move(plan)), workload_(workload), outputs_(graph.outputs().size()) {
  for (const ValueId v : graph.outputs()) {
    const Type& type = graph.type(v);
    const bool aliased =
        std::any_of(options.aliases.begin(), options.aliases.end(),
                    [&](const auto& pair) { return pair.second == graph.value(v).name; });
    reused_.push_back(type.is_static() && type.dtype != DType::kString && !aliased);
  }
}

void TimedPlan::run() {
  const auto& runs = workload_.runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool is_new =
        i > 0 && std::none_of(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(i),
                              [&](const auto& run) { return have_equal_sizes(run, runs[i]); });
    rest();
    const ThreadGate::Pass alone(ThreadGate::process(), all_threads());
    const double us = timed_run(runs[i]);
    // The very first one also makes what all sizes share.
    if (is_new) first_us_.push_back(us);
  }
}

double TimedPlan::timed_run(std::span<const Data> inputs) {
  throw_if_interrupted();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!reused_[i]) outputs_[i] = Data{};
  }
  const auto start = Profiler::Clock::now();
  plan_->run(inputs, outputs_, profiler_);
  return std::chrono::duration<double, std::micro>(Profiler::Clock::now() - start).count();
}

double TimedPlan::sample(Hold& hold) {
  const auto& runs = workload_.runs;
  double sum_us = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (rests()) {
      hold.end();
      rest();
      hold.renew();
    } else if (hold.is_over()) {
      hold.renew();
      // What ran before counts with the sizes that it would have had.
      if (median(samples_) < kSlowUs) settle(runs[(i + runs.size() - 1) % runs.size()]);
    }
    sum_us += timed_run(runs[i]);
  }
  return sum_us / static_cast<double>(runs.size());
}

bool TimedPlan::rests() const { return workload_.pause > kWaitingLoop; }

void TimedPlan::rest() const {
  if (!rests()) return;
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(workload_.pause, kLongestRest));
}

void TimedPlan::settle(std::span<const Data> inputs) {
  double settled_us = 0;
  for (std::size_t i = 0; i < kMostRuns && settled_us < kSettlingUs; ++i) {
    settled_us += timed_run(inputs);
  }
}

double TimedPlan::turn() {
  const double runs = static_cast<double>(workload_.runs.size());
  Hold hold;
  std::vector<double> samples;
  double counted_us = 0;
  const std::size_t most =
      rests() ? (kRunsAfterRests + workload_.runs.size() - 1) / workload_.runs.size() : kMostRuns;
  do {
    samples.push_back(sample(hold));
    counted_us += samples.back() * runs;
  } while (samples.size() < most && counted_us < kTurnUs);
  total_us_ += counted_us;
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  return with_new_sizes(median(std::move(samples)));
}

double TimedPlan::with_new_sizes(double us) const {
  const double more_us = std::max(median(first_us_) - us, 0.0);
  return us + workload_.new_share * more_us / kUsesOfASize;
}

void TimedPlan::forget() {
  samples_.clear();
  total_us_ = 0;
}

double TimedPlan::us() const { return samples_.empty() ? 0 : with_new_sizes(median(samples_)); }

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
