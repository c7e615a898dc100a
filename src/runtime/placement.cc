// SPDX-License-Identifier: Apache-2.0
#include "runtime/placement.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "ir/shape_inference.h"
#include "runtime/control_flow.h"

namespace xrt {
namespace {

constexpr const char* kFallbackEngine = "native";

// Candidates of "auto", best first where they take equally many nodes.
constexpr const char* kAutoCandidates[] = {"openvino", "native", "xla"};

// The first value of the node whose shape is not fully known, or an invalid id.
ValueId dynamic_value(const Graph& graph, NodeId id) {
  const auto is_dynamic = [&](ValueId v) {
    return v.valid() && graph.type(v).is_tensor() && !graph.type(v).is_static();
  };
  for (const ValueId v : graph.dependencies(id)) {
    if (is_dynamic(v)) return v;
  }
  for (const ValueId v : graph.node(id).outputs) {
    if (is_dynamic(v)) return v;
  }
  return {};
}

EngineAnswers ask(const Engine& engine, const Graph& graph, const ProgramOptions& options) {
  EngineAnswers answers{engine.name(), {}};
  const std::vector<std::string> devices = engine.devices();
  if (std::find(devices.begin(), devices.end(), options.device) == devices.end()) {
    answers.nodes.assign(graph.node_capacity(),
                         Support::no("it does not drive the device '" + options.device + "'"));
    return answers;
  }
  answers.nodes = engine.supports_all(graph, options.device, Phase::kInference);
  if (engine.dynamic_shapes()) return answers;
  for (const NodeId id : graph.nodes()) {
    Support& answer = answers.nodes[static_cast<std::size_t>(id.index)];
    const ValueId v = answer ? dynamic_value(graph, id) : ValueId{};
    if (!v.valid()) continue;
    answer = Support::no("it needs static shapes; '" + graph.value(v).name + "' is " +
                         to_string(graph.type(v)));
  }
  return answers;
}

std::size_t supported(const EngineAnswers& answers, const Graph& graph) {
  std::size_t count = 0;
  for (const NodeId id : graph.nodes()) {
    if (answers.nodes[static_cast<std::size_t>(id.index)]) ++count;
  }
  return count;
}

// The engine that takes most nodes comes first, what it leaves goes to the fallback.
void choose_automatically(const Graph& graph, const ProgramOptions& options, Placement& placement) {
  std::size_t best = 0;
  std::size_t most = 0;
  for (const char* name : kAutoCandidates) {
    try {
      placement.engines.push_back(get_engine(name));
    } catch (const Error& error) {
      placement.notes.push_back("auto: engine '" + std::string(name) +
                                "' is not available: " + error.what());
      continue;
    }
    placement.answers.push_back(ask(*placement.engines.back(), graph, options));
    const std::size_t count = supported(placement.answers.back(), graph);
    if (count > most) {
      most = count;
      best = placement.engines.size() - 1;
    }
  }
  if (placement.engines.empty()) {
    throw Error(ErrorCode::kNotFound,
                "engine 'auto' found no engine at all; `xrt doctor` says why");
  }
  std::rotate(placement.engines.begin(),
              placement.engines.begin() + static_cast<std::ptrdiff_t>(best),
              placement.engines.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  std::rotate(placement.answers.begin(),
              placement.answers.begin() + static_cast<std::ptrdiff_t>(best),
              placement.answers.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  placement.notes.push_back("auto: '" + placement.engines[0]->name() + "' takes " +
                            std::to_string(most) + " of " + std::to_string(graph.node_count()) +
                            " nodes");
}

void take_named(const Graph& graph, const ProgramOptions& options, Placement& placement) {
  for (const std::string& name : options.engines) {
    const bool twice = std::any_of(placement.engines.begin(), placement.engines.end(),
                                   [&](const auto& e) { return e->name() == name; });
    if (twice) {
      throw Error(ErrorCode::kInvalidArgument, "engine '" + name + "' is listed twice");
    }
    placement.engines.push_back(get_engine(name));
    placement.answers.push_back(ask(*placement.engines.back(), graph, options));
  }
}

// Whether one of the first `count` engines takes a node of the node's bodies, at any depth.
bool want_bodies(const Graph& graph, NodeId id, const Placement& placement, std::size_t count,
                 const ProgramOptions& options) {
  for (auto& [attribute, body] : detached_bodies(graph, id)) {
    try {
      infer_shapes(body, /*reset=*/true);
    } catch (const Error& error) {
      // A branch for other inputs than these: it says nothing.
      if (error.code() != ErrorCode::kInvalidModel) throw;
      continue;
    }
    for (std::size_t e = 0; e < count; ++e) {
      if (supported(ask(*placement.engines[e], body, options), body) > 0) return true;
    }
    for (const NodeId inner : body.nodes()) {
      if (!is_control_flow(body.node(inner))) continue;
      if (want_bodies(body, inner, placement, count, options)) return true;
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
  if (want_bodies(graph, id, placement, before, options)) return true;
  // Nobody can do anything with it but the fallback; where that is ruled out, an error shall name
  // the node of the body that nobody takes.
  return options.strict && before == placement.answers.size();
}

void take_control_flow(const Graph& graph, const ProgramOptions& options, const std::string& scope,
                       Placement& placement) {
  std::vector<NodeId> candidates;
  for (const NodeId id : graph.nodes()) {
    if (is_control_flow(graph.node(id))) candidates.push_back(id);
  }
  if (candidates.empty()) return;
  ProgramOptions own = options;
  own.engines.clear();
  for (const auto& engine : placement.engines) own.engines.push_back(engine->name());
  own.aliases.clear();
  const auto runtime = std::make_shared<RuntimeEngine>(std::move(own), scope);
  EngineAnswers answers{kRuntimeEngine, {}};
  answers.nodes.assign(graph.node_capacity(), Support::no("it is no control flow"));
  bool any = false;
  for (const NodeId id : candidates) {
    const auto index = static_cast<std::size_t>(id.index);
    answers.nodes[index] = Support::no("an engine of the list takes it whole");
    if (!belongs_to_runtime(graph, id, placement, options)) continue;
    answers.nodes[index] = runtime->supports({graph, id});
    any = true;
    if (!answers.nodes[index]) continue;
    for (EngineAnswers& other : placement.answers) {
      if (other.nodes[index]) {
        other.nodes[index] =
            Support::no("it takes the node whole, but nodes of its bodies go to other engines");
      }
    }
  }
  if (!any) return;
  placement.engines.push_back(runtime);
  placement.answers.push_back(std::move(answers));
}

// What no listed engine takes runs natively: the documented default, reported by explain().
void add_fallback(const Graph& graph, const ProgramOptions& options, Placement& placement) {
  const bool listed = std::any_of(placement.engines.begin(), placement.engines.end(),
                                  [](const auto& e) { return e->name() == kFallbackEngine; });
  if (options.strict || listed) return;
  bool all_taken = options.cluster_minimum_nodes <= 1;
  for (const NodeId id : graph.nodes()) {
    const bool taken = std::any_of(
        placement.answers.begin(), placement.answers.end(), [&](const EngineAnswers& a) {
          return static_cast<bool>(a.nodes[static_cast<std::size_t>(id.index)]);
        });
    all_taken = all_taken && taken;
  }
  if (all_taken) return;
  placement.engines.push_back(get_engine(kFallbackEngine));
  placement.answers.push_back(ask(*placement.engines.back(), graph, options));
  placement.notes.push_back("nodes that no listed engine takes run on 'native'");
}

// "loop/body/node": the overrides of the body's own program say more.
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

}  // namespace

Placement place(const Graph& graph, const ProgramOptions& options, const std::string& scope) {
  if (options.engines.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no engine is named; {\"auto\"} is the default");
  }
  Placement placement;
  if (options.engines.size() == 1 && options.engines[0] == "auto") {
    choose_automatically(graph, options, placement);
  } else {
    take_named(graph, options, placement);
  }
  take_control_flow(graph, options, scope, placement);
  add_fallback(graph, options, placement);
  PartitionOptions partition_options;
  partition_options.single_node_engine = kRuntimeEngine;
  partition_options.minimum_nodes = options.cluster_minimum_nodes;
  partition_options.maximum_nodes = options.cluster_maximum_nodes;
  // A pass may have removed a node that the user placed; that override has nothing to say then.
  for (const auto& [name, engine] : options.node_engines) {
    if (graph.find_node(name)) {
      partition_options.node_engines.emplace(name, engine);
    } else if (!is_within_body(graph, name)) {
      placement.notes.push_back("node_engines: node '" + name + "' was removed by a pass");
    }
  }
  placement.partition = partition(graph, placement.answers, partition_options);
  for (const std::string& note : placement.notes) log_debug(note);
  return placement;
}

}  // namespace xrt
