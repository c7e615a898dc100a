// SPDX-License-Identifier: Apache-2.0
#include "program/served_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"
#include "cache/distrust.h"
#include "device/caller_stream.h"
#include "measure/measure.h"
#include "measure/profile_cache.h"
#include "placement/decision.h"
#include "placement/estimates.h"
#include "placement/survey.h"
#include "plan/functions.h"
#include "registry/engine_failure.h"
#include "registry/engine_names.h"
#include "xrt/cache.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

// What was measured for one set of shapes, for another one.
Decision for_other_shapes(Decision decision) {
  decision.placement = "measured for other shapes";
  return decision;
}

bool take_any_size(const Decision& decision) {
  return std::all_of(decision.engines.begin(), decision.engines.end(), [](const auto& engine) {
    return get_engine(engine)->info().shapes == Shapes::kAny;
  });
}

// What is done at once: the user's choice, what was measured earlier, or an estimate.
Decision decide(Survey& survey, const std::optional<Decision>& like) {
  const ProgramOptions& options = survey.options();
  const bool may_be_known = is_auto(options) || wants_measuring(options);
  if (may_be_known && profiles_exist(options)) {
    const std::string key = profile_key(survey.graph(), options);
    if (std::optional<Decision> known = find_profile(key, options)) return std::move(*known);
  }
  if (!is_auto(options)) return named(options);
  if (like && take_any_size(*like)) {
    return like->placement == kEstimated ? *like : for_other_shapes(*like);
  }
  Decision decision = estimate(survey);
  decision.precision = options.precision.value_or(Precision::kF32);
  return decision;
}

double seconds_since(Profiler::Clock::time_point start) {
  return std::chrono::duration<double>(Profiler::Clock::now() - start).count();
}

// What measuring has settled for the program, where it holds for this plan.
std::optional<Decision> settled(const PlanSource& source) {
  std::optional<Decision> found = source.refining->settled(source.options->auto_budget_s);
  if (found && source.like && !take_any_size(*found)) found.reset();
  return found;
}

// Who shall run what, as far as that is known before the first run returns: by the user's names, by
// what was measured earlier, by measuring now (AutoMode::kFull, or the precision is to be chosen),
// by estimates.
struct Choice {
  Decision decision;
  std::shared_ptr<Executor> plan;  // where it was built on the way
};

bool measures_beside_runs(const ProgramOptions& options) {
  if (!wants_measuring(options) || auto_mode(options) != AutoMode::kBackground) return false;
  return is_precision_auto(options) || auto_candidates(options).size() > 1;
}

// What to measure with before the plan runs. Without inputs values are made up.
std::optional<Workload> workload_before_runs(const Graph& graph, std::span<const Data> inputs,
                                             const PlanSource& source) {
  if (inputs.empty()) return synthetic_workload(graph, *source.options);
  Workload workload;
  if (source.is_open) {
    workload.runs = source.refining->kept_inputs();
    workload.new_share = 1;  // no size has come twice so far
  } else {
    source.refining->keep_inputs(copies(inputs));
  }
  workload.runs.push_back(copies(inputs));
  return workload;
}

Choice choose(Survey& survey, std::span<const Data> inputs, const PlanSource& source) {
  const ProgramOptions& options = survey.options();
  std::string why_not;
  if (wants_measuring(options)) {
    if (std::optional<Decision> known = settled(source)) {
      return {for_other_shapes(std::move(*known)), nullptr};
    }
  }
  if (wants_measuring(options) && auto_mode(options) != AutoMode::kBackground) {
    if (const auto workload = workload_before_runs(survey.graph(), inputs, source)) {
      const auto start = Profiler::Clock::now();
      Measured measured = measure(survey, *workload);
      source.refining->book(seconds_since(start), measured.decision);
      return {std::move(measured.decision), std::move(measured.plan)};
    }
    why_not = "not measured: the shapes or types of the inputs are not known before a run";
  }
  Choice choice{decide(survey, source.like), nullptr};
  if (!why_not.empty()) choice.decision.notes.push_back(why_not);
  return choice;
}

// What copies of one run's values may take.
constexpr std::size_t kMostRecorded = std::size_t{256} << 20;

std::vector<std::string> notes_of(const ResultCheck& found, const RunRecord& record) {
  std::vector<std::string> notes;
  if (found.right > 0) {
    notes.push_back(fmt::format(
        "check_results: {} with '{}', largest difference {:.2g} of the range",
        found.right == 1 ? "1 function agrees" : fmt::format("{} functions agree", found.right),
        kFallbackEngine, found.largest));
  }
  for (const ResultCheck::Wrong& wrong : found.wrong) {
    notes.push_back(fmt::format("check_results: engine '{}' computed function '{}' wrong: {}",
                                wrong.engine, wrong.function, wrong.why));
  }
  for (const ResultCheck::Overflow& overflow : found.overflows) {
    notes.push_back(fmt::format("check_results: function '{}' is out of range: {}",
                                overflow.function, to_string(overflow.values)));
  }
  for (const std::string& skipped : found.skipped) {
    notes.push_back("check_results: not compared: " + skipped);
  }
  if (!record.left_out.empty()) {
    notes.push_back(
        fmt::format("check_results: {} function{} not compared: their values are too "
                    "large to be copied",
                    record.left_out.size(), record.left_out.size() == 1 ? "" : "s"));
  }
  return notes;
}

}  // namespace

std::shared_ptr<ServedPlan> ServedPlan::build(PlanSource source, std::span<const Data> inputs,
                                              Plan* kept) {
  auto served = std::make_shared<ServedPlan>();
  served->source_ = std::move(source);
  const ProgramOptions& options = *served->source_.options;
  const std::shared_ptr<const Graph> graph = served->source_.graph();
  Survey survey(*graph, options);
  Choice choice = choose(survey, inputs, served->source_);
  if (choice.plan == nullptr || kept != nullptr) {
    // A plan that was measured lives on meanwhile: its executables are compiled already.
    choice.plan = Executor::build(survey, choice.decision, {}, kept);
  }
  served->start(std::move(choice.plan), std::move(choice.decision));
  return served;
}

std::shared_ptr<ServedPlan> ServedPlan::of(Plan& kept, PlanSource source) {
  auto served = std::make_shared<ServedPlan>();
  served->source_ = std::move(source);
  const ProgramOptions& options = *served->source_.options;
  Decision decision{.engines = kept.engines,
                    .precision = kept.precision,
                    .float32_nodes = kept.float32_nodes,
                    .placement = kept.explanation.placement,
                    .candidates = kept.explanation.candidates,
                    .notes = {}};
  std::erase(decision.engines, kRuntimeEngine);
  std::shared_ptr<Executor> plan;
  try {
    plan = Executor::finish(kept, options);
  } catch (const CompileFailure& failure) {
    if (!failure.computes_wrong) throw;
    if (served->source_.forget) served->source_.forget();
    return build(std::move(served->source_), {});
  }
  served->start(std::move(plan), std::move(decision));
  return served;
}

// What serves first.
void ServedPlan::start(std::shared_ptr<Executor> plan, Decision decision) {
  refining_ = measures_beside_runs(*source_.options) && decision.placement == kEstimated;
  if (refining_) sampler_ = std::make_unique<RunSampler>(source_.is_open);
  serve(std::move(plan), std::move(decision));
  wants_refining_ = refining_;
}

std::shared_ptr<Executor> ServedPlan::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

void ServedPlan::run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                     bool device_results) {
  if (!wants_refining_.load(std::memory_order_relaxed)) {
    return serve_run(inputs, outputs, profiler, device_results);
  }
  std::optional<RunSampler::Sample> sample = begin_sample(inputs);
  serve_run(inputs, outputs, profiler, device_results);
  const bool is_complete = sample ? sampler_->end(std::move(*sample)) : sampler_->is_complete();
  if (is_complete && source_.refining->claim()) hand_over();
}

void ServedPlan::serve_run(std::span<const Data> inputs, std::span<Data> outputs,
                           Profiler& profiler, bool device_results) {
  const Check check = check_.load(std::memory_order_relaxed);
  if (check == Check::kRecord) return run_recorded(inputs, outputs, profiler, device_results);
  if (check == Check::kRecorded) begin_check();
  plan()->run(inputs, outputs, profiler, device_results);
}

void ServedPlan::serve(std::shared_ptr<Executor> plan, Decision decision) {
  const ProgramOptions& options = *source_.options;
  const bool checked = options.check_results && !options.training && plan->has_checked_functions();
  for (const std::string& warning : plan->warnings()) source_.refining->warn_once(warning);
  decltype(record_) record;  // goes after the lock too
  const std::lock_guard lock(mutex_);
  plan_.swap(plan);  // the old one goes after the lock, and after its last run
  decision_ = std::move(decision);
  record_.swap(record);
  check_notes_.clear();
  check_ = checked ? Check::kRecord : Check::kOff;
}

void ServedPlan::run_recorded(std::span<const Data> inputs, std::span<Data> outputs,
                              Profiler& profiler, bool device_results) {
  Check expected = Check::kRecord;
  const bool records = check_.compare_exchange_strong(expected, Check::kRecording);
  // After the turn was taken: a plan that comes in between begins with a turn of its own.
  const std::shared_ptr<Executor> served = plan();
  if (!records) return served->run(inputs, outputs, profiler, device_results);
  auto record = std::make_shared<RunRecord>();
  record->bytes_left = kMostRecorded;
  try {
    served->run(inputs, outputs, profiler, device_results, record.get());
  } catch (...) {  // the next run is recorded in its place
    const std::lock_guard lock(mutex_);
    if (plan_ == served) check_ = Check::kRecord;
    throw;
  }
  const std::lock_guard lock(mutex_);
  if (plan_ != served) return;
  record_ = std::move(record);
  check_ = Check::kRecorded;
}

void ServedPlan::begin_check() {
  Check expected = Check::kRecorded;
  if (!check_.compare_exchange_strong(expected, Check::kDone)) return;
  std::shared_ptr<Executor> plan;
  std::shared_ptr<const RunRecord> record;
  {
    const std::lock_guard lock(mutex_);
    plan = plan_;
    record.swap(record_);
  }
  if (record == nullptr) return;  // another plan has come
  Refiner::process().add([weak = weak_from_this(), plan = std::move(plan),
                          record = std::move(record),
                          refining = source_.refining](const Refiner::Stop& ending) mutable {
    const Refiner::Stop stop = [&] { return ending() || refining->stopped(); };
    std::shared_ptr<ServedPlan> served = weak.lock();
    if (served == nullptr || ending() || !refining->enter_check()) return;
    served->check(plan, *record, stop);  // throws nothing
    // Whoever waits may end the process: nothing of an engine is to go after that.
    served.reset();
    plan.reset();
    record.reset();
    refining->leave_check();
  });
}

void ServedPlan::check(const std::shared_ptr<Executor>& plan, const RunRecord& record,
                       const Refiner::Stop& stop) {
  const ProgramOptions& options = *source_.options;
  std::vector<std::string> notes;
  try {
    Decision decision;
    {
      const std::lock_guard lock(mutex_);
      if (plan_ != plan) return;
      decision = decision_;
    }
    const ResultCheck found = check_results(record, decision.precision, options);
    if (stop()) return;
    notes = notes_of(found, record);
    if (amends(found, decision)) {
      // Finds the functions refused, and says so.
      const std::shared_ptr<const Graph> graph = source_.graph();
      Survey survey(*graph, options);
      std::shared_ptr<Executor> right = Executor::build(survey, decision);
      {
        const std::lock_guard lock(mutex_);
        if (plan_ != plan) return;  // measuring was faster: its plan is checked by itself
      }
      serve(std::move(right), std::move(decision));
      if (source_.forget) source_.forget();
    }
  } catch (...) {  // the program serves on
    notes.push_back("check_results failed: " + exception_text());
    log_warning(notes.back());
  }
  const std::lock_guard lock(mutex_);
  check_notes_.insert(check_notes_.end(), notes.begin(), notes.end());
}

bool ServedPlan::amends(const ResultCheck& found, Decision& decision) const {
  const ProgramOptions& options = *source_.options;
  const auto dir = options.cache_dir ? *options.cache_dir : default_cache_dir();
  bool amended = false;
  for (const ResultCheck::Wrong& wrong : found.wrong) {
    if (wrong.engine == kFallbackEngine) {
      source_.refining->warn_once(fmt::format("function '{}' is wrong in {}: {}", wrong.function,
                                              to_string(decision.precision), wrong.why));
    } else if (options.strict) {
      log_warning(
          fmt::format("engine '{}' computes function '{}' wrong: {}; the program is "
                      "strict, so it stays there",
                      wrong.engine, wrong.function, wrong.why));
    } else {
      keep_distrust(wrong.key, wrong.engine, wrong.function, wrong.why, dir);
      amended = true;
    }
  }
  std::vector<std::string>& kept = decision.float32_nodes;
  for (const ResultCheck::Overflow& overflow : found.overflows) {
    std::size_t added = 0;
    for (const std::string& node : overflow.values.keep) {
      if (options.strict || std::find(kept.begin(), kept.end(), node) != kept.end()) continue;
      kept.push_back(node);
      ++added;
    }
    source_.refining->warn_once(fmt::format(
        "function '{}' makes values outside the range of {}: {}; {}", overflow.function,
        to_string(decision.precision), to_string(overflow.values),
        added > 0 ? "these nodes are computed in float32 from now on" : "results may be infinite"));
    amended = amended || added > 0;
  }
  return amended;
}

std::optional<RunSampler::Sample> ServedPlan::begin_sample(std::span<const Data> inputs) {
  try {
    const bool is_ripe = source_.refining->is_ripe();
    CallerStream* const stream = CallerStream::current();
    if (is_ripe && stream != nullptr) stream->wait();
    return sampler_->begin(inputs, is_ripe);
  } catch (...) {  // the run does not need it
    wants_refining_ = false;
    end_refining(exception_text());
    return std::nullopt;
  }
}

void ServedPlan::hand_over() {
  if (!wants_refining_.exchange(false)) {  // another thread's run was first
    source_.refining->release();
    return;
  }
  try {
    auto own = std::make_shared<Workload>(sampler_->take());
    for (const Explanation::LaunchRow& launch : plan()->explain().launches) {
      own->served_by.push_back(launch.engine);
    }
    Refiner::process().add([weak = weak_from_this(), own = std::move(own),
                            refining = source_.refining](const Refiner::Stop& ending) {
      const Refiner::Stop stop = [&] { return ending() || refining->stopped(); };
      const std::shared_ptr<ServedPlan> plan = weak.lock();
      // Null: its shapes have gone out of use.
      if (plan != nullptr && !stop()) plan->refine(*own, stop);
      refining->release();
    });
  } catch (...) {  // the run does not need it
    source_.refining->release();
    end_refining(exception_text());
  }
}

Explanation ServedPlan::explain() const {
  Explanation explanation = plan()->explain();
  if (!source_.note.empty()) explanation.notes.push_back(source_.note);
  const std::lock_guard lock(mutex_);
  explanation.notes.insert(explanation.notes.end(), check_notes_.begin(), check_notes_.end());
  if (refining_) explanation.placement += ", to be measured beside the runs";
  if (!trouble_.empty()) {
    explanation.notes.push_back("auto: measuring beside the runs failed, the plan stays: " +
                                trouble_);
  }
  return explanation;
}

std::size_t ServedPlan::held_bytes() const {
  const std::shared_ptr<Executor> served = plan();
  std::size_t bytes = served->workspace_bytes();
  for (const Explanation::LaunchRow& launch : served->explain().launches) {
    bytes += launch.weight_bytes;
  }
  return bytes;
}

Decision ServedPlan::decision() const {
  const std::lock_guard lock(mutex_);
  return decision_;
}

void ServedPlan::refine(const Workload& workload, const Refiner::Stop& stop) {
  try {
    const ProgramOptions& options = *source_.options;
    const std::shared_ptr<const Graph> graph = source_.graph();
    Survey survey(*graph, options);
    Measured better;
    if (std::optional<Decision> known = settled(source_)) {
      better.decision = for_other_shapes(std::move(*known));
      better.plan = Executor::build(survey, better.decision);
    } else {
      const auto start = Profiler::Clock::now();
      better = measure(survey, workload, {stop, /*beside_runs=*/true});
      if (stop()) return;
      source_.refining->book(seconds_since(start), better.decision);
    }
    serve(std::move(better.plan), std::move(better.decision));
    {
      const std::lock_guard lock(mutex_);
      refining_ = false;
    }
    if (source_.forget) source_.forget();
  } catch (...) {  // the program serves on
    if (!stop()) end_refining(exception_text());
  }
}

void ServedPlan::end_refining(std::string trouble) {
  log_info("auto: measuring beside the runs failed, the plan stays: " + trouble);
  const std::lock_guard lock(mutex_);
  refining_ = false;
  trouble_ = std::move(trouble);
}

}  // namespace xrt
