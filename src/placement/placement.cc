// SPDX-License-Identifier: Apache-2.0
#include "placement/placement.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/log.h"
#include "ops/shape_inference.h"
#include "placement/control_flow.h"
#include "placement/estimates.h"
#include "placement/precision.h"

namespace xrt {
namespace {

void add(Survey& survey, const std::string& name, Placement& placement) {
  const Survey::Entry& entry = survey.of(name);
  placement.answers.push_back(entry.answers);
}

// Whether one of the engines takes a node of the node's bodies, at any depth.
bool want_bodies(const Graph& graph, NodeId id, std::span<const EngineAnswers> engines,
                 const ProgramOptions& options) {
  for (auto& [attribute, body] : detached_bodies(graph, id)) {
    try {
      infer_shapes(body, /*reset=*/true);
    } catch (const Error& error) {
      // A branch for other inputs than these: it says nothing.
      if (error.code() != ErrorCode::kInvalidModel) throw;
      continue;
    }
    for (const EngineAnswers& asked : engines) {
      if (taken(ask(*get_engine(asked.engine), body, options), body) > 0) return true;
    }
    for (const NodeId inner : body.nodes()) {
      if (!is_control_flow(body.node(inner))) continue;
      if (want_bodies(body, inner, engines, options)) return true;
    }
  }
  return false;
}

bool overrides_bodies(const Node& node, const ProgramOptions& options) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [&](const auto& attribute) {
    return !overrides_within(options.node_engines, node.name, attribute.first).empty();
  });
}

// Whether the runtime is to drive this control-flow node, by the rule of control_flow.h.
bool belongs_to_runtime(const Graph& graph, NodeId id, const Placement& placement,
                        const ProgramOptions& options) {
  const Node& node = graph.node(id);
  const auto own = options.node_engines.find(node.name);
  if (own != options.node_engines.end()) return own->second == kRuntimeEngine;
  if (overrides_bodies(node, options)) return true;
  const auto index = static_cast<std::size_t>(id.index);
  std::size_t before = 0;  // engines before the first that takes it whole
  while (before < placement.answers.size() && !placement.answers[before].nodes[index]) ++before;
  if (before == 0) return false;
  if (want_bodies(graph, id, std::span(placement.answers).first(before), options)) return true;
  // Nobody can do anything with it but the fallback; where that is ruled out, an error shall name
  // the node of the body that nobody takes.
  return options.strict && before == placement.answers.size();
}

void take_control_flow(const Graph& graph, const ProgramOptions& options, Placement& placement) {
  EngineAnswers answers{kRuntimeEngine, {}};
  answers.nodes.assign(graph.node_capacity(), Support::no("it is no control flow"));
  bool any = false;
  for (const NodeId id : graph.nodes()) {
    if (!is_control_flow(graph.node(id))) continue;
    const auto index = static_cast<std::size_t>(id.index);
    answers.nodes[index] = Support::no("an engine of the list takes it whole");
    if (!belongs_to_runtime(graph, id, placement, options)) continue;
    answers.nodes[index] = can_drive(graph, id);
    any = true;
    if (!answers.nodes[index]) continue;
    for (EngineAnswers& other : placement.answers) {
      if (other.nodes[index]) {
        other.nodes[index] =
            Support::no("it takes the node whole, but nodes of its bodies go to other engines");
      }
    }
  }
  if (any) placement.answers.push_back(std::move(answers));
}

// Whether values that pass between its functions are looked at: they lie on the host, and it does
// not look itself.
bool keeps_borders(Survey& survey, const std::string& name) {
  if (name == kRuntimeEngine) return false;
  const Engine& engine = *survey.of(name).engine;
  if (device_for(engine, survey.options()) != "cpu") return false;
  // What makes the result too large is right for an engine that knows nothing of the bound.
  const bool is_bounded = survey.options().max_memory_bytes > 0;
  return !(is_bounded ? engine.info().checks_indices : checks_values(engine));
}

// What no listed engine takes runs natively: the documented default, reported by explain().
void add_fallback(Survey& survey, Placement& placement) {
  const Graph& graph = survey.graph();
  const ProgramOptions& options = survey.options();
  const bool listed = std::any_of(placement.answers.begin(), placement.answers.end(),
                                  [](const auto& a) { return a.engine == kFallbackEngine; });
  if (options.strict || listed) return;
  bool all_taken = true;
  for (const NodeId id : graph.nodes()) {
    const bool taken = std::any_of(
        placement.answers.begin(), placement.answers.end(), [&](const EngineAnswers& a) {
          return static_cast<bool>(a.nodes[static_cast<std::size_t>(id.index)]);
        });
    all_taken = all_taken && taken;
  }
  if (all_taken && options.cluster_minimum_nodes <= 1) return;
  add(survey, kFallbackEngine, placement);
  if (all_taken) return;
  placement.notes.push_back("nodes that no listed engine takes run on 'native'");
}

// Notes the engines that have work and compute it in float32 where less was asked for. Where all of
// them do: kUnsupported with `strict`, else a warning.
void judge_precision(Survey& survey, Precision precision, Placement& placement) {
  const ProgramOptions& options = survey.options();
  const Phase phase = options.training ? Phase::kTraining : Phase::kInference;
  std::set<std::string> working;
  for (const Cluster& cluster : placement.partition.clusters) {
    working.insert(placement.answers[cluster.engine].engine);
  }
  working.erase(kRuntimeEngine);
  std::string refusing, word;
  std::size_t refused = 0, asked = 0;
  for (const std::string& name : working) {
    const Engine& engine = *survey.of(name).engine;
    const Precision wanted = wanted_precision(engine, options, precision);
    if (wanted == Precision::kF32) continue;
    ++asked;
    word = to_string(wanted);
    if (offers_precision(engine, device_for(engine, options), phase, wanted)) continue;
    ++refused;
    refusing += (refusing.empty() ? "'" : ", '") + name + "'";
    placement.notes.push_back("engine '" + name + "' computes in float32: it has no " + word);
  }
  if (refused == 0 || refused < asked) return;
  const std::string what = "precision " + word + ": no engine of the program has it on " +
                           options.device + " (" + refusing + ")";
  if (options.strict) throw Error(ErrorCode::kUnsupported, what);
  placement.warnings.push_back(what + "; float32 is computed");
}

}  // namespace

bool is_within_body(const Graph& graph, const std::string& name) {
  for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
    const auto id = graph.find_node(name.substr(0, at));
    if (!id || !is_control_flow(graph.node(*id))) continue;
    for (const auto& [attribute, value] : graph.node(*id).attributes) {
      if (name.compare(at + 1, attribute.size() + 1, attribute + "/") == 0) return true;
    }
  }
  return false;
}

Placement place(Survey& survey, const Decision& decision) {
  const Graph& graph = survey.graph();
  const ProgramOptions& options = survey.options();
  Placement placement;
  placement.notes = decision.notes;
  placement.notes.insert(placement.notes.end(), survey.notes().begin(), survey.notes().end());
  for (const std::string& name : decision.engines) {
    const bool twice = std::any_of(placement.answers.begin(), placement.answers.end(),
                                   [&](const auto& a) { return a.engine == name; });
    if (twice) {
      throw Error(ErrorCode::kInvalidArgument, "engine '" + name + "' is listed twice");
    }
    add(survey, name, placement);
  }
  take_control_flow(graph, options, placement);
  add_fallback(survey, placement);
  PartitionOptions partition_options;
  partition_options.single_node_engine = kRuntimeEngine;
  partition_options.minimum_nodes = options.cluster_minimum_nodes;
  partition_options.maximum_nodes = options.cluster_maximum_nodes;
  partition_options.updates = updates_of(graph, options);
  // A training step reads data of its owner, and pays for a cut with memory and fused kernels.
  if (!options.training) partition_options.borders = computed_operands(graph);
  for (EngineAnswers& answers : placement.answers) {
    answers.keeps_borders = keeps_borders(survey, answers.engine);
  }
  // A pass may have removed a node that the user placed; that override has nothing to say then.
  for (const auto& [name, engine] : options.node_engines) {
    if (graph.find_node(name)) {
      partition_options.node_engines.emplace(name, engine);
    } else if (!is_within_body(graph, name)) {
      placement.notes.push_back("node_engines: node '" + name + "' was removed by a pass");
    }
  }
  placement.partition = partition(graph, placement.answers, partition_options);
  if (const std::size_t count = placement.partition.demotions.size(); count > 0) {
    placement.notes.push_back("cluster_minimum_nodes: " + std::to_string(count) +
                              (count == 1 ? " node went" : " nodes went") + " to the next engine");
  }
  judge_precision(survey, decision.precision, placement);
  for (const std::string& note : placement.notes) log_debug(note);
  return placement;
}

}  // namespace xrt
