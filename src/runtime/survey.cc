// SPDX-License-Identifier: Apache-2.0
#include "runtime/survey.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/auto.h"

namespace xrt {
namespace {

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

bool drives(const Engine& engine, const std::string& device) {
  const std::vector<std::string> devices = engine.devices();
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

}  // namespace

std::string device_for(const Engine& engine, const ProgramOptions& options) {
  if (drives(engine, options.device)) return options.device;
  // What crosses functions lies on the host: what is left over can run there.
  const bool is_leftover =
      engine.name() == kFallbackEngine &&
      std::any_of(options.engines.begin(), options.engines.end(), [&](const std::string& name) {
        return name == "auto" ||
               (name != kFallbackEngine && drives(*get_engine(name), options.device));
      });
  return is_leftover ? "cpu" : std::string();
}

EngineAnswers ask(const Engine& engine, const Graph& graph, const ProgramOptions& options) {
  EngineAnswers answers{engine.name(), {}};
  const std::string device = device_for(engine, options);
  if (device.empty()) {
    answers.nodes.assign(
        graph.node_capacity(),
        Support::no(fmt::format("it does not drive the device '{}', but {}", options.device,
                                fmt::join(engine.devices(), ", "))));
    return answers;
  }
  answers.nodes = engine.supports_all(graph, device, Phase::kInference);
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

std::size_t taken(const EngineAnswers& answers, const Graph& graph) {
  std::size_t count = 0;
  for (const NodeId id : graph.nodes()) {
    if (answers.nodes[static_cast<std::size_t>(id.index)]) ++count;
  }
  return count;
}

const Survey::Entry& Survey::of(const std::string& name) {
  for (const Entry& entry : entries_) {
    if (entry.answers.engine == name) return entry;
  }
  Entry entry;
  entry.engine = get_engine(name);
  entry.answers = ask(*entry.engine, graph_, options_);
  entry.taken = xrt::taken(entry.answers, graph_);
  entries_.push_back(std::move(entry));
  return entries_.back();
}

}  // namespace xrt
