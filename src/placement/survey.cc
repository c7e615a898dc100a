// SPDX-License-Identifier: Apache-2.0
#include "placement/survey.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "base/work_scope.h"
#include "engine/host.h"
#include "ir/updates.h"
#include "ops/op_registry.h"
#include "ops/sizes/deciding_operands.h"
#include "placement/estimates.h"
#include "placement/heavy_constants.h"
#include "placement/withheld.h"
#include "registry/engine_failure.h"
#include "registry/engine_manifest.h"
#include "registry/op_lowering.h"

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
  const std::vector<DeviceInfo>& devices = engine.info().devices;
  return std::any_of(devices.begin(), devices.end(),
                     [&](const DeviceInfo& info) { return info.name == device; });
}

std::vector<std::string> device_names(const Engine& engine) {
  std::vector<std::string> names;
  for (const DeviceInfo& info : engine.info().devices) names.push_back(info.name);
  return names;
}

// Positions of the node's inputs that the program's aliases have its outputs written into.
std::vector<std::int32_t> mutable_inputs(const Graph& graph, NodeId id,
                                         const ProgramOptions& options) {
  std::vector<std::int32_t> positions;
  const Node& node = graph.node(id);
  for (const auto& [input, output] : options.aliases) {
    const bool writes =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&, &wanted = output](ValueId v) {
          return v.valid() && graph.is_output(v) && graph.value(v).name == wanted;
        });
    if (!writes) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!v.valid() || graph.value(v).origin != Origin::kInput) continue;
      if (graph.value(v).name == input) positions.push_back(static_cast<std::int32_t>(i));
    }
  }
  return positions;
}

bool others_work_in_place(const Engine& engine, const ProgramOptions& options) {
  if (!options.strict) return true;  // the fallback
  return std::any_of(options.engines.begin(), options.engines.end(), [&](const std::string& name) {
    return name != "auto" && name != engine.name() && get_engine(name)->info().in_place;
  });
}

// New values of variables are left to engines that write them over the old ones.
void refuse_updates(const Graph& graph, const ProgramOptions& options,
                    std::vector<Support>& answers) {
  std::vector<ValueId> written;
  for (const Update& update : updates_of(graph, options)) written.push_back(update.second);
  std::vector<bool> updates = update_nodes(graph, written);
  for (const ValueId v : written) {
    if (graph.value(v).origin != Origin::kNode) continue;
    updates[static_cast<std::size_t>(graph.value(v).producer.index)] = true;
  }
  for (const NodeId id : graph.nodes()) {
    const auto i = static_cast<std::size_t>(id.index);
    if (!updates[i] || !answers[i]) continue;
    answers[i] = Support::no(
        "it makes new values of variables, and this engine cannot write them "
        "over the old ones");
  }
}

// Bodies in which nobody would see what decides shapes or addresses.
void refuse_unseen_operands(const Engine& engine, const Graph& graph,
                            std::vector<Support>& answers) {
  if (!engine_manifest(engine.name()).crashes_on_values && checks_values(engine)) return;
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    Support& answer = answers[static_cast<std::size_t>(id.index)];
    if (!answer || !leaves_operands_unseen(graph, node)) continue;
    answer = Support::no(
        "its bodies have values that decide shapes or addresses and are computed there, or wrong, "
        "and "
        "this engine does not check them");
  }
}

bool has_loop(const Node& node) {
  if (node.domain.empty() && (node.op == "Loop" || node.op == "Scan")) return true;
  const std::vector<const Graph*> bodies = Graph::subgraphs(node);
  return std::any_of(bodies.begin(), bodies.end(), [](const Graph* body) {
    const std::vector<NodeId> nodes = body->nodes();
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](NodeId id) { return has_loop(body->node(id)); });
  });
}

// Those that a function of another engine would run to their end, whatever the time and the memory.
void refuse_loops(const Graph& graph, std::vector<Support>& answers) {
  for (const NodeId id : graph.nodes()) {
    Support& answer = answers[static_cast<std::size_t>(id.index)];
    if (!answer || !has_loop(graph.node(id))) continue;
    answer =
        Support::no("deadline_s or max_memory_bytes is set: the engine's loops cannot be ended");
  }
}

// The engine's own words.
std::vector<Support> answers_of(const Engine& engine, const Graph& graph, const std::string& device,
                                const ProgramOptions& options) {
  const Phase phase = options.training ? Phase::kTraining : Phase::kInference;
  std::vector<Support> answers = engine.supports_all({view_of(graph), {}, device, phase});
  if (answers.size() < graph.node_capacity()) {
    throw Error(ErrorCode::kEngine, "it gave " + std::to_string(answers.size()) + " answers for " +
                                        std::to_string(graph.node_capacity()) + " nodes");
  }
  for (const NodeId id : graph.nodes()) {
    if (registered_op(graph, graph.node(id)) == nullptr) continue;
    Support& answer = answers[static_cast<std::size_t>(id.index)];
    answer = lowered_support(engine, graph, id, device, phase, answer);
  }
  refuse_unseen_operands(engine, graph, answers);
  if (options.aliases.empty()) return answers;
  if (!engine.info().in_place && others_work_in_place(engine, options))
    refuse_updates(graph, options, answers);
  for (const NodeId id : graph.nodes()) {
    Support& answer = answers[static_cast<std::size_t>(id.index)];
    if (!answer) continue;
    const std::vector<std::int32_t> written = mutable_inputs(graph, id, options);
    if (!written.empty()) answer = engine.supports({view_of(graph), id, device, phase, written});
  }
  return answers;
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

bool checks_values(const Engine& engine) {
  return engine.info().checks_indices || engine_manifest(engine.name()).checks_values;
}

std::vector<Update> updates_of(const Graph& graph, const ProgramOptions& options) {
  std::vector<Update> updates;
  for (const auto& [input, output] : options.aliases) {
    const auto from = graph.find_value(input);
    const auto to = graph.find_value(output);
    if (from && to) updates.emplace_back(*from, *to);
  }
  return updates;
}

bool is_of_model(std::string_view engine, const Error& error) {
  return engine == kFallbackEngine && error.code() == ErrorCode::kInvalidModel;
}

EngineAnswers ask(const Engine& engine, const Graph& graph, const ProgramOptions& options) {
  EngineAnswers answers{engine.name(), {}};
  const std::string device = device_for(engine, options);
  if (device.empty()) {
    answers.nodes.assign(
        graph.node_capacity(),
        Support::no(fmt::format("it does not drive the device '{}', but {}", options.device,
                                fmt::join(device_names(engine), ", "))));
    return answers;
  }
  const auto failed = [&](const std::string& cause) {
    return "engine '" + engine.name() + "' failed when it was asked which nodes of graph '" +
           graph.name() + "' it takes: " + cause;
  };
  try {
    const std::vector<Withheld> withheld = withheld_nodes(engine, graph);
    if (withheld.empty()) {
      answers.nodes = answers_of(engine, graph, device, options);
    } else {
      std::vector<NodeId> ids;
      ids.reserve(withheld.size());
      for (const Withheld& one : withheld) ids.push_back(one.node);
      answers.nodes = answers_of(engine, without_nodes(graph, ids), device, options);
      for (const Withheld& one : withheld) {
        answers.nodes[static_cast<std::size_t>(one.node.index)] = Support::no(one.reason);
      }
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& error) {
    if (is_of_model(engine.name(), error)) throw;
    throw Error(error.code(), failed(error.what()));
  } catch (...) {
    throw Error(ErrorCode::kEngine, failed(exception_text()));
  }
  const bool is_bounded = options.deadline_s > 0 || options.max_memory_bytes > 0;
  if (is_bounded && engine.name() != kFallbackEngine) refuse_loops(graph, answers.nodes);
  if (engine.info().shapes == Shapes::kAny) return answers;
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

bool Survey::refuse(const std::string& engine, const std::vector<std::string>& nodes,
                    const std::string& reason) {
  bool changed = false;
  for (Entry& entry : entries_) {
    if (entry.answers.engine != engine) continue;
    for (const std::string& name : nodes) {
      const auto id = graph_.find_node(name);
      if (!id) continue;
      Support& answer = entry.answers.nodes[static_cast<std::size_t>(id->index)];
      changed = changed || static_cast<bool>(answer);
      answer = Support::no(reason);
    }
    entry.taken = xrt::taken(entry.answers, graph_);
  }
  if (changed) {
    notes_.push_back("fallback: " + reason + "; " + std::to_string(nodes.size()) +
                     (nodes.size() == 1 ? " node goes" : " nodes go") + " to the next engine");
  }
  return changed;
}

void check_value_bytes(const Graph& graph, std::size_t most_bytes) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const ValueId v : node.outputs) {
      if (!v.valid() || !graph.type(v).is_static()) continue;
      const Type& type = graph.type(v);
      if (type.dtype == DType::kString || type.dtype == DType::kUndefined) continue;
      const std::size_t bytes = byte_count(type.dtype, *type.static_dims());
      if (bytes <= most_bytes) continue;
      throw Error(ErrorCode::kResource,
                  fmt::format("node '{}' ({}) makes {} of {} bytes; a run may take {} "
                              "(max_memory_bytes)",
                              node.name, node.qualified_op(), to_string(type), bytes, most_bytes));
    }
  }
}

Survey::Survey(const Graph& graph, const ProgramOptions& options)
    : graph_(graph), options_(options) {
  check_value_bytes(graph, memory_bound(options.max_memory_bytes));
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
