// SPDX-License-Identifier: Apache-2.0
#include "program/served_plan.h"

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "device/caller_stream.h"
#include "measure/measure.h"
#include "measure/profile_cache.h"
#include "placement/estimates.h"
#include "placement/survey.h"
#include "registry/engine_failure.h"

namespace xrt {
namespace {

// Copies of tensors: the caller's memory is the caller's again when the run is over.
std::vector<Data> copies(std::span<const Data> inputs) {
  std::vector<Data> result;
  for (const Data& data : inputs) {
    result.push_back(data.is_tensor() ? Data(data.tensor().clone()) : data);
  }
  return result;
}

// What is done at once: the user's choice, what was measured earlier, or an estimate.
Decision decide(Survey& survey) {
  const ProgramOptions& options = survey.options();
  const bool may_be_known = is_auto(options) || wants_measuring(options);
  if (may_be_known && profiles_exist(options)) {
    const std::string key = profile_key(survey.graph(), options);
    if (std::optional<Decision> known = find_profile(key, options)) return std::move(*known);
  }
  if (!is_auto(options)) return named(options);
  Decision decision = estimate(survey);
  decision.precision = options.precision;
  return decision;
}

// What was measured for one set of shapes, for another one.
Decision for_other_shapes(Decision decision, const Graph& graph) {
  decision.placement = "measured for other shapes";
  // Shapes may have folded other nodes away; then only the order of engines says something.
  if (decision.node_engines.size() != graph.node_count()) decision.node_engines.clear();
  return decision;
}

double seconds_since(Profiler::Clock::time_point start) {
  return std::chrono::duration<double>(Profiler::Clock::now() - start).count();
}

}  // namespace

std::optional<Decision> MeasuringAccount::settled(double budget_s) const {
  const std::lock_guard lock(mutex_);
  return spent_s_ >= budget_s ? last_ : std::nullopt;
}

void MeasuringAccount::book(double seconds, const Decision& outcome) {
  const std::lock_guard lock(mutex_);
  spent_s_ += seconds;
  last_ = outcome;
}

Choice choose(Survey& survey, std::span<const Data> inputs, MeasuringAccount& account) {
  const ProgramOptions& options = survey.options();
  std::string why_not;
  if (wants_measuring(options)) {
    if (std::optional<Decision> settled = account.settled(options.auto_budget_s)) {
      return {for_other_shapes(std::move(*settled), survey.graph()), nullptr};
    }
  }
  if (wants_measuring(options) && auto_mode(options) != AutoMode::kBackground) {
    const auto values =
        inputs.empty() ? synthetic_inputs(survey.graph()) : std::optional(copies(inputs));
    if (values) {
      const auto start = Profiler::Clock::now();
      Measured measured = measure(survey, *values);
      account.book(seconds_since(start), measured.decision);
      return {std::move(measured.decision), std::move(measured.plan)};
    }
    why_not = "not measured: the shapes or types of the inputs are not known before a run";
  }
  Choice choice{decide(survey), nullptr};
  if (choice.decision.precision == "auto") choice.decision.precision = "f32";
  if (!why_not.empty()) choice.decision.notes.push_back(why_not);
  return choice;
}

std::shared_ptr<ServedPlan> ServedPlan::build(std::shared_ptr<const Graph> graph,
                                              const ProgramOptions& options,
                                              std::span<const Data> inputs, Refiner& refiner) {
  auto served = std::make_shared<ServedPlan>();
  served->graph_ = std::move(graph);
  served->options_ = &options;
  served->refiner_ = &refiner;
  Survey survey(*served->graph_, options);
  Choice choice = choose(survey, inputs, refiner.account());
  if (choice.plan == nullptr) {
    const bool refine = wants_measuring(options) && auto_mode(options) == AutoMode::kBackground &&
                        choice.decision.placement != kMeasuredEarlier &&
                        !refiner.account().settled(options.auto_budget_s);
    if (refine) choice.decision.placement += ", to be measured beside the runs";
    served->wants_refining_ = refine;
    choice.plan = Executor::build(survey, choice.decision);
  }
  served->plan_ = std::move(choice.plan);
  return served;
}

std::shared_ptr<ServedPlan> ServedPlan::of(std::shared_ptr<Executor> plan) {
  auto served = std::make_shared<ServedPlan>();
  served->plan_ = std::move(plan);
  return served;
}

std::shared_ptr<Executor> ServedPlan::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

void ServedPlan::run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                     bool device_results) {
  if (wants_refining_.load(std::memory_order_relaxed) && wants_refining_.exchange(false)) {
    if (CallerStream* stream = CallerStream::current()) stream->wait();
    refiner_->add(weak_from_this(), copies(inputs));
  }
  plan()->run(inputs, outputs, profiler, device_results);
}

Explanation ServedPlan::explain() const { return plan()->explain(); }

void ServedPlan::refine(std::span<const Data> inputs, const std::atomic<bool>& stop) {
  Survey survey(*graph_, *options_);
  const auto start = Profiler::Clock::now();
  Measured measured = measure(survey, inputs, [&stop] { return stop.load(); });
  refiner_->account().book(seconds_since(start), measured.decision);
  const std::lock_guard lock(mutex_);
  plan_.swap(measured.plan);  // the old one goes after the lock, and after its last run
}

Refiner::~Refiner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Refiner::add(std::weak_ptr<ServedPlan> plan, std::vector<Data> inputs) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back({std::move(plan), std::move(inputs)});
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  wake_.notify_all();
}

void Refiner::work() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    const std::shared_ptr<ServedPlan> plan = job.plan.lock();
    if (plan == nullptr) continue;  // its shapes went out of use meanwhile
    try {
      plan->refine(job.inputs, stop_);
    } catch (...) {  // the program serves on
      if (stop_) return;
      log_warning("auto: measuring beside the runs failed, the plan stays: " + exception_text());
    }
  }
}

}  // namespace xrt
