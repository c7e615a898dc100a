// SPDX-License-Identifier: Apache-2.0
#include "measure/measure.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/element.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/per_process.h"
#include "cache/cache_entry.h"
#include "measure/contention.h"
#include "measure/contest.h"
#include "measure/difference.h"
#include "measure/half_range.h"
#include "measure/profile_cache.h"
#include "measure/timing.h"
#include "ops/op_facts.h"
#include "ops/schema.h"
#include "placement/estimates.h"
#include "placement/precision.h"

namespace xrt {
namespace {

// An engine whose estimate is this much above the best one's is not worth compiling for, nor
// loading.
constexpr double kHopeless = 4;
// A first timing is a few runs, which another program may disturb: who takes this much longer than
// the fastest is out, the others are timed again, in turns.
constexpr double kFar = 2;
// Within this much of the fastest then, they are compared round by round (measure/contest.h).
constexpr double kNear = 1.1;
// A float32 candidate that differs by more than this, over the range of an output, computes
// something else; where a graph quantises there is no telling.
constexpr double kWrong = 0.1;
// On a busy machine the estimated best stays unless it takes longer than the measured best by more
// than this share, over so many rounds.
constexpr double kBusyTie = 0.1;
constexpr int kBusyRounds = 15;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Whether a node, of a body too, is one of those that `test` is about.
template <typename Test>
bool any_node(const Graph& graph, const Test& test) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (test(node)) return true;
    for (const Graph* body : Graph::subgraphs(node)) {
      if (any_node(*body, test)) return true;
    }
  }
  return false;
}

// The largest difference over the range of floats, the share of elements that differ of all else;
// -1 where the two cannot be compared element by element.
double error_of(const Data& actual, const Data& expected) {
  if (!actual.is_tensor() || !expected.is_tensor()) return -1;
  const Tensor& a = actual.tensor();
  const Tensor& e = expected.tensor();
  if (a.dtype() != e.dtype() || a.dims() != e.dims()) return -1;
  if (e.count() == 0) return 0;
  if (is_floating(e.dtype())) {
    const Difference difference = compare(a, e, 0, std::numeric_limits<double>::max());
    return difference.within ? difference.max_of_range : std::numeric_limits<double>::infinity();
  }
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < e.count(); ++i) {
    const bool same = e.dtype() == DType::kString
                          ? a.strings()[i] == e.strings()[i]
                          : element_as_double(a, i) == element_as_double(e, i);
    if (!same) ++different;
  }
  return static_cast<double>(different) / static_cast<double>(e.count());
}

double error_of(std::span<const Data> actual, std::span<const Data> expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = error_of(actual[i], expected[i]);
    if (error < 0) return -1;
    worst = std::max(worst, error);
  }
  return worst;
}

std::string times(double factor) {
  const auto tenths = static_cast<std::int64_t>(std::lround(factor * 10));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

class Measurement {
 public:
  Measurement(Survey& survey, const Workload& workload, const MeasuringRules& rules)
      : survey_(survey), workload_(workload), pace_(rules) {}

  Measured run() {
    collect();
    build_all();
    Candidate* best = fastest();
    if (best == nullptr) {
      // What the first of them said is what loading without measuring would have said.
      if (first_failure_) throw Error(*first_failure_);
      std::string message = "no candidate can run this graph";
      for (const Candidate& c : candidates_) message += "\n  " + c.row.plan + ": " + c.row.note;
      throw Error(ErrorCode::kUnsupported, message);
    }
    best = time_closely(best);
    busy_ = contention_.disturbed();
    if (busy_) best = prefer_expected(best);
    return finish(best);
  }

 private:
  struct Candidate {
    Decision decision;
    Explanation::CandidateRow row;
    std::unique_ptr<TimedPlan> timed;  // null: could not be had, or is out of the race
  };

  double budget() const { return survey_.options().auto_budget_s; }
  bool over() const { return pace_.stopped() || pace_.spent() > budget(); }

  // All candidates in the order in which they are tried: float32 first, each by its estimate.
  void collect() {
    const ProgramOptions& options = survey_.options();
    std::vector<Precision> precisions = {options.precision.value_or(Precision::kF32)};
    if (is_precision_auto(options)) {
      for (const Precision p : fast_precisions()) precisions.push_back(p);
    }
    std::vector<Candidate> base;
    if (is_auto(options)) {
      for (EngineEstimate& entry : estimates(survey_, kHopeless)) {
        Candidate candidate;
        candidate.decision.engines = {entry.engine};
        candidate.row = std::move(entry.row);
        base.push_back(std::move(candidate));
      }
    } else {
      Candidate candidate;
      candidate.decision.engines = options.engines;
      for (const std::string& name : options.engines) {
        candidate.row.plan += (candidate.row.plan.empty() ? "" : ",") + name;
      }
      base.push_back(std::move(candidate));
    }
    // The oracle first: the others are compared with it.
    std::stable_partition(base.begin(), base.end(), [](const Candidate& c) {
      return c.decision.engines[0] == kFallbackEngine;
    });
    for (const Precision precision : precisions) {
      for (const Candidate& candidate : base) {
        const auto& engines = candidate.decision.engines;
        // One that is out of the question need not be opened to ask it.
        const auto offers = [&](const std::string& name) {
          const Engine& engine = *survey_.of(name).engine;
          return offers_precision(engine, device_for(engine, options), Phase::kInference,
                                  precision);
        };
        if (is_precision_auto(options) && precision != Precision::kF32 &&
            (!candidate.row.note.empty() || std::none_of(engines.begin(), engines.end(), offers))) {
          continue;
        }
        Candidate copy;
        copy.decision = candidate.decision;
        copy.decision.precision = precision;
        copy.row = candidate.row;
        copy.row.precision = precision;
        add_engines_of_nodes(options, copy.decision);
        candidates_.push_back(std::move(copy));
      }
    }
    for (const Candidate& c : candidates_) {
      if (c.row.estimated_us > 0 && c.row.note.empty()) {
        least_estimate_ = std::min(least_estimate_, c.row.estimated_us);
      }
    }
  }

  void build_all() {
    comparable_ =
        !any_node(survey_.graph(), [](const Node& node) { return !is_deterministic(node); });
    // Steps may grow from layer to layer.
    const bool rounds =
        any_node(survey_.graph(), [](const Node& node) { return op_facts(node).rounds; });
    wrong_ = rounds ? kNever : kWrong;
    bool first = true;
    for (Candidate& candidate : candidates_) {
      if (!candidate.row.note.empty()) continue;
      if (!first && over()) {
        candidate.row.note = "not measured: the time for measuring was over";
        continue;
      }
      if (!first && candidate.row.estimated_us > kHopeless * least_estimate_) {
        candidate.row.note = "not measured: estimated " +
                             times(candidate.row.estimated_us / least_estimate_) +
                             " times the time of the best";
        continue;
      }
      try {
        build(candidate);
        first = false;
      } catch (const Error& error) {
        candidate.row.note = std::string("failed: ") + error.what();
        candidate.timed.reset();
        if (!first_failure_) first_failure_ = error;
      }
    }
  }

  // Compiled, and run for the first time.
  std::unique_ptr<TimedPlan> timed_plan(const Decision& decision) {
    auto timed = std::make_unique<TimedPlan>(Executor::build(survey_, decision), survey_.graph(),
                                             survey_.options(), workload_);
    pace_.take_break();
    timed->run();
    if (!workload_.served_first_us.empty() && is_served_by(*timed->plan())) {
      timed->set_first_us(workload_.served_first_us);
    }
    return timed;
  }

  // Whether an engine of the plan is one that serves: what the process made for these sizes is
  // there.
  bool is_served_by(const Executor& plan) const {
    const std::vector<Explanation::LaunchRow> launches = plan.explain().launches;
    return std::any_of(launches.begin(), launches.end(), [&](const auto& launch) {
      return std::find(workload_.served_by.begin(), workload_.served_by.end(), launch.engine) !=
             workload_.served_by.end();
    });
  }

  void build(Candidate& candidate) {
    candidate.timed = timed_plan(candidate.decision);
    TimedPlan& timed = *candidate.timed;
    constexpr int kTurns = 4;
    constexpr double kEnoughUs = 50e3;
    for (int i = 0; i < kTurns && (i == 0 || timed.total_us() < kEnoughUs); ++i) {
      if (i > 0 && pace_.stopped()) break;
      pace_.take_break();
      timed.turn();
    }
    candidate.row.measured_us = timed.us();
    judge(candidate);
    const Candidate* best = fastest();
    if (best != nullptr && candidate.row.measured_us > kFar * best->row.measured_us) {
      candidate.timed.reset();  // its weights are memory
    }
  }

  // Compares with float32 and takes out of the race what is wrong.
  void judge(Candidate& candidate) {
    const bool exact = candidate.row.precision == Precision::kF32;
    const std::vector<Data>& outputs = candidate.timed->outputs();
    const bool oracle = exact && candidate.decision.engines[0] == kFallbackEngine;
    if (exact && (reference_.empty() || oracle)) {
      reference_.clear();
      for (const Data& data : outputs) {
        reference_.push_back(data.is_tensor() ? Data(data.tensor().clone()) : data);
      }
      if (oracle) candidate.row.error = 0;
    }
    if (!comparable_) {
      if (!exact && is_precision_auto(survey_.options())) {
        reject(candidate, "its outputs are random, so its error cannot be measured");
      }
      return;
    }
    if (reference_.empty()) return;
    const double error = error_of(outputs, reference_);
    if (!std::isfinite(error)) {
      const HalfOverflows overflows = find_half_overflows(
          survey_.graph(), workload_.runs.back(), candidate.row.precision, survey_.options());
      if (!overflows.rows.empty() && candidate.decision.float32_nodes.empty()) {
        notes_.push_back(fmt::format("auto: {} in {}: {}; these nodes stay in float32 there",
                                     candidate.row.plan, to_string(candidate.row.precision),
                                     to_string(overflows)));
        candidate.decision.float32_nodes.assign(overflows.keep.begin(), overflows.keep.end());
        build(candidate);
        return;
      }
      reject(candidate, "its outputs are not finite where those in float32 are, or the reverse" +
                            (overflows.rows.empty() ? "" : ": " + to_string(overflows)));
      return;
    }
    candidate.row.error = error;
    if (exact) {
      if (candidate.row.error > wrong_) {
        reject(candidate, "its outputs differ from those of '" + std::string(kFallbackEngine) +
                              "'; `xrt compare` finds the node");
      }
      return;
    }
    if (!is_precision_auto(survey_.options())) return;
    if (candidate.row.error < 0 || candidate.row.error > survey_.options().tolerance) {
      reject(candidate, "its error is beyond the tolerance");
    }
  }

  static void reject(Candidate& candidate, std::string reason) {
    candidate.row.note = std::move(reason);
    candidate.timed.reset();
  }

  Candidate* fastest() {
    Candidate* best = nullptr;
    for (Candidate& candidate : candidates_) {
      if (candidate.timed == nullptr) continue;
      if (best == nullptr || candidate.row.measured_us < best->row.measured_us) best = &candidate;
    }
    return best;
  }

  Candidate* time_closely(Candidate* best) {
    std::vector<TimedPlan*> close;
    for (Candidate& candidate : candidates_) {
      if (candidate.timed == nullptr) continue;
      if (candidate.row.measured_us > kFar * best->row.measured_us) {
        candidate.timed.reset();
        continue;
      }
      candidate.timed->forget();
      close.push_back(candidate.timed.get());
    }
    const double share = std::min(1.0, 0.1 * budget());
    time_in_turns(close, 3, 25, share, pace_);
    for (Candidate& candidate : candidates_) {
      if (candidate.timed != nullptr) candidate.row.measured_us = candidate.timed->us();
    }
    best = decide_between_the_nearest(fastest());
    for (Candidate& candidate : candidates_) {
      if (&candidate != best) candidate.timed.reset();
    }
    return best;
  }

  // The longest time that plans which are about as fast are compared for.
  double contest_seconds() const { return std::min(3.0, 0.2 * budget()); }

  // Medians of a few turns say little about plans that are about as fast.
  Candidate* decide_between_the_nearest(Candidate* best) {
    std::vector<Candidate*> nearest;
    for (Candidate& candidate : candidates_) {
      if (candidate.timed == nullptr) continue;
      if (candidate.row.measured_us <= kNear * best->row.measured_us) nearest.push_back(&candidate);
    }
    if (nearest.size() < 2 || over()) return best;
    // Fewer launches are fewer things that a busy process can delay.
    const auto launches = [](const Candidate* c) {
      return c->timed->plan()->explain().launches.size();
    };
    std::stable_sort(nearest.begin(), nearest.end(), [&](const Candidate* a, const Candidate* b) {
      return launches(a) < launches(b);
    });
    ContestLimits limits;
    limits.seconds = contest_seconds();
    return compete(nearest, limits);
  }

  // In the order of preference; all have a plan.
  Candidate* compete(const std::vector<Candidate*>& candidates, ContestLimits limits) {
    limits.seconds = std::min(limits.seconds, budget() - pace_.spent());
    for (Candidate* candidate : candidates) candidate->timed->forget();
    ContestRules rules;
    rules.turn = [&](std::size_t i) {
      pace_.take_break();
      return candidates[i]->timed->turn();
    };
    rules.now_s = [this] { return pace_.spent(); };
    rules.stop = [this] { return pace_.stopped(); };
    Candidate* best = candidates[contest(candidates.size(), limits, rules)];
    for (Candidate* candidate : candidates) {
      // Not a single turn where time was over at once: what was measured before stays.
      const double us = candidate->timed->us();
      if (us > 0) candidate->row.measured_us = us;
    }
    return best;
  }

  // Beside other work times say less: the estimated best of the same precision stays unless it is
  // clearly behind.
  Candidate* prefer_expected(Candidate* best) {
    const auto percent = [](double share) { return std::to_string(std::lround(100 * share)); };
    notes_.push_back(
        "auto: measured while other programs took " + percent(contention_.others_share()) +
        " % of the processors and threads waited " + percent(contention_.waiting_share()) +
        " % of the time: small differences do not count, and nothing is kept");
    Candidate* expected = nullptr;
    for (Candidate& c : candidates_) {
      const bool eligible = c.row.measured_us > 0 && c.row.note.empty() &&
                            c.row.precision == best->row.precision && c.row.estimated_us > 0;
      if (!eligible) continue;
      if (expected == nullptr || c.row.estimated_us < expected->row.estimated_us) expected = &c;
    }
    if (expected == nullptr || expected == best) return best;
    if (expected->row.measured_us > kFar * best->row.measured_us) return best;
    if (expected->timed == nullptr) {
      expected->timed = timed_plan(expected->decision);
    }
    ContestLimits limits;
    limits.seconds = contest_seconds();
    limits.minimum = kBusyRounds;
    limits.tie = kBusyTie;
    limits.enough = kNever;  // bounds are wide here: the medians decide
    return compete({expected, best}, limits);
  }

  Measured finish(Candidate* best) {
    best->row.chosen = true;
    Measured result;
    result.plan = best->timed->plan();
    result.decision = best->decision;
    result.decision.placement = busy_ ? kMeasuredBusy : kMeasured;
    const std::size_t runs = workload_.runs.size();
    notes_.push_back(
        fmt::format("auto: measured on {:%Y-%m-%d at %H:%M} UTC, for {:.1f} s{}",
                    fmt::gmtime(std::time(nullptr)), pace_.spent(),
                    runs > 1 ? fmt::format(", with the inputs of {} runs", runs) : ""));
    result.decision.notes = std::move(notes_);
    std::vector<const Candidate*> sorted;
    for (const Candidate& c : candidates_) sorted.push_back(&c);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Candidate* a, const Candidate* b) {
      const auto rank = [](const Candidate& c) {
        return std::pair(!c.row.chosen, c.row.measured_us > 0 ? c.row.measured_us : kNever);
      };
      return rank(*a) < rank(*b);
    });
    for (const Candidate* c : sorted) result.decision.candidates.push_back(c->row);
    result.plan->annotate(result.decision);
    log_info("auto: measured for " + times(pace_.spent()) + " s: " + best->row.plan + " " +
             std::string(to_string(best->row.precision)));
    return result;
  }

  Survey& survey_;
  const Workload& workload_;
  Pace pace_;
  Contention contention_;
  bool busy_ = false;
  std::vector<Candidate> candidates_;
  std::vector<Data> reference_;  // outputs in float32, of the fallback engine where it is there
  std::vector<std::string> notes_;
  double least_estimate_ = kNever;
  bool comparable_ = true;
  double wrong_ = kWrong;
  std::optional<Error> first_failure_;
};

}  // namespace

bool wants_measuring(const ProgramOptions& options) {
  if (is_precision_auto(options)) return true;
  return is_auto(options) && auto_mode(options) != AutoMode::kFast;
}

namespace {

std::optional<Measured> known(Survey& survey, const std::string& key) {
  std::optional<Decision> decision = find_profile(key, survey.options());
  if (!decision) return std::nullopt;
  Measured result;
  result.plan = Executor::build(survey, *decision);
  result.decision = std::move(*decision);
  return result;
}

// How often a measurement that waits for another one looks.
constexpr std::chrono::milliseconds kTurnPoll{50};

// One measurement at a time in a process: they would disturb each other. False if stopped first.
bool wait_for_turn(std::unique_lock<std::mutex>& turn, const MeasuringRules& rules) {
  while (!turn.try_lock()) {
    throw_if_interrupted();
    if (rules.stop && rules.stop()) return false;
    std::this_thread::sleep_for(kTurnPoll);
  }
  return true;
}

// Another process that measures the same is waited for, as the compile cache does. Null where there
// is no folder, or it is of no use.
std::unique_ptr<FileLock> lock_between_processes(const std::string& key,
                                                 const ProgramOptions& options,
                                                 const MeasuringRules& rules) {
  const std::filesystem::path dir = profile_folder(options);
  if (dir.empty()) return nullptr;
  try {
    prepare_folder(dir);
    for (;;) {
      auto lock = FileLock::try_lock(dir / (key + ".lock"));
      if (lock != nullptr) return lock;
      throw_if_interrupted();
      if (rules.stop && rules.stop()) return nullptr;
      std::this_thread::sleep_for(kTurnPoll);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kEngine) throw;  // the user has interrupted
    log_info(std::string("profile cache: ") + error.what() + ": measuring without it");
    return nullptr;
  }
}

[[noreturn]] void fail_stopped() {
  throw Error(ErrorCode::kResource, "measuring was stopped before its turn came");
}

}  // namespace

Measured measure(Survey& survey, const Workload& workload, const MeasuringRules& rules) {
  const std::string key = profile_key(survey.graph(), survey.options());
  if (std::optional<Measured> found = known(survey, key)) return std::move(*found);
  static PerProcess<std::mutex> measuring;
  std::unique_lock turn(measuring.get(), std::defer_lock);
  if (!wait_for_turn(turn, rules)) fail_stopped();
  const std::unique_ptr<FileLock> lock = lock_between_processes(key, survey.options(), rules);
  if (rules.stop && rules.stop()) fail_stopped();
  if (std::optional<Measured> found = known(survey, key)) return std::move(*found);
  Measured result = Measurement(survey, workload, rules).run();
  // Of the engines that lost; beside the runs it goes back with the plan that is replaced
  // (Refiner).
  if (!rules.beside_runs) release_free_memory();
  const bool reliable = result.decision.placement == kMeasured;
  if (reliable && (!rules.stop || !rules.stop())) {
    keep_profile(key, survey.options(), result.decision);
  }
  return result;
}

}  // namespace xrt
