// SPDX-License-Identifier: Apache-2.0
#include "runtime/placement.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

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

}  // namespace

Placement place(const Graph& graph, const ProgramOptions& options) {
  if (options.engines.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no engine is named; {\"auto\"} is the default");
  }
  Placement placement;
  if (options.engines.size() == 1 && options.engines[0] == "auto") {
    choose_automatically(graph, options, placement);
  } else {
    take_named(graph, options, placement);
  }
  add_fallback(graph, options, placement);
  PartitionOptions partition_options;
  partition_options.minimum_nodes = options.cluster_minimum_nodes;
  partition_options.maximum_nodes = options.cluster_maximum_nodes;
  // A pass may have removed a node that the user placed; that override has nothing to say then.
  for (const auto& [name, engine] : options.node_engines) {
    if (graph.find_node(name))
      partition_options.node_engines.emplace(name, engine);
    else
      placement.notes.push_back("node_engines: node '" + name + "' was removed by a pass");
  }
  placement.partition = partition(graph, placement.answers, partition_options);
  for (const std::string& note : placement.notes) log_debug(note);
  return placement;
}

}  // namespace xrt
