// SPDX-License-Identifier: Apache-2.0
// Placement by estimates: what each engine needs for each kind of work, roughly.
#include "placement/estimates.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "device/threads.h"
#include "partition/cost.h"
#include "registry/engine_manifest.h"
#include "registry/isolation_choice.h"

namespace xrt {
namespace {

// On bytes. Some engines compute them in float32 where the CPU has no VNNI.
double quantised_speed(const EngineEstimates& rates) {
#if defined(__x86_64__)
  static const bool has_vnni = [] {
    __builtin_cpu_init();
    return static_cast<bool>(__builtin_cpu_supports("avx512vnni"));
  }();
#else
  constexpr bool has_vnni = false;
#endif
  return has_vnni ? rates.quantised : rates.quantised_without_vnni.value_or(rates.quantised);
}

// An engine that could take less than this share of the work is a cut of the program for nothing.
constexpr double kWorthCutting = 0.1;

// An engine that nobody measured has the defaults: worth trying where "full" measures, never a
// guess.
EngineEstimates rates_of(const std::string& engine) {
  return engine_manifest(engine).estimates.value_or(EngineEstimates{});
}

double node_us(const NodeWork& work, const EngineEstimates& rates, int threads) {
  double speed = rates.matrix;
  if (work.kind == WorkKind::kConvolution) speed = rates.convolution;
  if (work.kind == WorkKind::kDepthwise) speed = rates.depthwise;
  if (work.quantised) speed = quantised_speed(rates);
  const double arithmetic = work.operations / (speed * 1e3 * threads);
  const double memory = work.bytes / (rates.bytes * 1e3 * threads);
  return std::max(arithmetic, memory) + rates.node_us;
}

class Estimator {
 public:
  explicit Estimator(Survey& survey)
      : survey_(survey),
        threads_(thread_share(survey.options().num_threads, survey.options().streams).threads) {
    const Graph& graph = survey.graph();
    work_.resize(graph.node_capacity());
    for (const NodeId id : graph.nodes()) work_[at(id)] = node_work(graph, id);
  }

  // The time if this engine took every node: the least that it can need.
  double least_us(const std::string& engine) const {
    const EngineEstimates rates = rates_of(engine);
    double us = rates.launch_us;
    for (const NodeId id : survey_.graph().nodes()) us += node_us(work_[at(id)], rates, threads_);
    return us;
  }

  // The time if this engine gets what it takes, and the fallback the rest.
  double split_us(const std::string& engine) const {
    const Graph& graph = survey_.graph();
    const auto& nodes = survey_.of(engine).answers.nodes;
    const EngineEstimates own = rates_of(engine);
    const EngineEstimates other = rates_of(kFallbackEngine);
    double us = own.launch_us;
    for (const NodeId id : graph.nodes()) {
      const bool mine = static_cast<bool>(nodes[at(id)]);
      us += node_us(work_[at(id)], mine ? own : other, threads_);
      // Where a value changes engines, one launch ends and another one begins.
      for (const ValueId v : graph.dependencies(id)) {
        const Value& value = graph.value(v);
        if (value.origin != Origin::kNode) continue;
        if (static_cast<bool>(nodes[at(value.producer)]) == mine) continue;
        us += own.launch_us;
        us += static_cast<double>(value_bytes(graph, v)) / (own.bytes * 1e3);
        break;
      }
    }
    return us;
  }

  // Of the fallback's time, the share of nodes all of whose values have a static type: the most
  // that an engine without open dimensions can take.
  double static_share() const {
    const Graph& graph = survey_.graph();
    const EngineEstimates rates = rates_of(kFallbackEngine);
    const auto is_static = [&](ValueId v) { return !v.valid() || graph.type(v).is_static(); };
    double some = 0;
    double all = 0;
    for (const NodeId id : graph.nodes()) {
      const double us = node_us(work_[at(id)], rates, threads_);
      all += us;
      const Node& node = graph.node(id);
      const bool fixed = std::all_of(node.inputs.begin(), node.inputs.end(), is_static) &&
                         std::all_of(node.outputs.begin(), node.outputs.end(), is_static);
      if (fixed) some += us;
    }
    return all > 0 ? some / all : 1;
  }

 private:
  static std::size_t at(NodeId id) { return static_cast<std::size_t>(id.index); }

  Survey& survey_;
  int threads_;
  std::vector<NodeWork> work_;
};

bool is_known(const std::string& engine) { return engine_manifest(engine).estimates.has_value(); }

}  // namespace

void add_engines_of_nodes(const ProgramOptions& options, Decision& decision) {
  for (const auto& [node, engine] : options.node_engines) {
    if (engine == kRuntimeEngine) continue;
    if (std::find(decision.engines.begin(), decision.engines.end(), engine) ==
        decision.engines.end()) {
      decision.engines.push_back(engine);
    }
  }
}

bool is_auto(const ProgramOptions& options) {
  return !options.engines.empty() && options.engines[0] == "auto";
}

bool is_precision_auto(const ProgramOptions& options) { return !options.precision; }

AutoMode auto_mode(const ProgramOptions& options) {
  if (options.auto_mode == "full") return AutoMode::kFull;
  if (options.auto_mode == "background") return AutoMode::kBackground;
  if (options.auto_mode == "fast") return AutoMode::kFast;
  // Results are not to lose precision between two runs.
  if (is_precision_auto(options)) return AutoMode::kFull;
  // Where measuring beside the runs would take memory or minutes that nobody expects: copies of
  // parameters and their states, and builds for an accelerator.
  if (options.training || options.device != "cpu") return AutoMode::kFast;
  return AutoMode::kBackground;
}

std::vector<std::string> auto_candidates(const ProgramOptions& options) {
  if (options.engines.size() > 1) return {options.engines.begin() + 1, options.engines.end()};
  std::vector<std::string> names(std::begin(kAutoEngines), std::end(kAutoEngines));
  if (options.device != "cpu") {
    names.assign(std::begin(kAutoEnginesOnAccelerators), std::end(kAutoEnginesOnAccelerators));
  }
  for (std::string& name : names) name = placed_engine(options, name);
  return names;
}

std::vector<EngineEstimate> estimates(Survey& survey, double hopeless) {
  const Estimator estimator(survey);
  const std::size_t total = survey.graph().node_count();
  std::vector<EngineEstimate> list;
  const EngineEstimate* best = nullptr;
  const std::vector<std::string> names = auto_candidates(survey.options());
  const double static_share = estimator.static_share();
  list.reserve(names.size());
  for (const std::string& name : names) {
    EngineEstimate& own = list.emplace_back();
    own.engine = name;
    own.row.plan = name == kFallbackEngine ? name : name + "," + kFallbackEngine;
    own.us = estimator.least_us(name);
    // Where it is to be measured, an engine of unknown speed may turn out to be any.
    const bool guessed = is_known(name) || hopeless <= 1;
    if (guessed && best != nullptr && best->takes_all && own.us >= hopeless * best->us) {
      own.row.note = "not loaded: estimated slower";
    } else {
      // Engines that say so beforehand are not opened: a library and its threads are memory.
      const auto needs_fixed_sizes = [&] {
        return engine_manifest(name).needs_fixed_sizes ||
               get_engine(name)->info().shapes == Shapes::kStatic;
      };
      try {
        if (static_share < kWorthCutting && needs_fixed_sizes()) {
          own.row.note = "left out: it wants fixed sizes, and nearly all nodes have open ones";
          continue;
        }
        const Survey::Entry& entry = survey.of(name);
        own.takes_all = entry.taken == total;
        if (entry.taken == 0 && total > 0) {
          const NodeId id = survey.graph().topological_order().front();
          const Node& first = survey.graph().node(id);
          own.row.note = "it takes no node; not '" + first.name + "' (" + first.qualified_op() +
                         "): " + entry.answers.nodes[static_cast<std::size_t>(id.index)].reason();
        }
        if (survey.options().strict && !own.takes_all) {
          own.row.note = "it takes " + std::to_string(entry.taken) + " of " +
                         std::to_string(total) + " nodes, and `strict` rules others out";
        }
        own.us = estimator.split_us(name);
      } catch (const Error& error) {
        if (is_of_model(name, error)) throw;
        own.row.note = std::string("not available: ") + error.what();
      }
    }
    if (is_known(name)) own.row.estimated_us = own.us;
    if (own.row.note.empty() && (best == nullptr || own.us < best->us)) best = &own;
  }
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return std::pair(!a.row.note.empty(), a.us) < std::pair(!b.row.note.empty(), b.us);
  });
  return list;
}

Decision estimate(Survey& survey) {
  std::vector<EngineEstimate> list = estimates(survey, /*hopeless=*/1);
  if (!list[0].row.note.empty()) {
    std::string message = "engine 'auto' found no engine that takes a node; `xrt doctor` says more";
    for (const auto& entry : list) message += "\n  " + entry.row.plan + ": " + entry.row.note;
    throw Error(ErrorCode::kNotFound, message);
  }
  Decision decision;
  decision.placement = kEstimated;
  list[0].row.chosen = true;
  decision.engines.push_back(list[0].engine);
  add_engines_of_nodes(survey.options(), decision);
  for (auto& entry : list) decision.candidates.push_back(std::move(entry.row));
  return decision;
}

}  // namespace xrt
