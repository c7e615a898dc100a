// SPDX-License-Identifier: Apache-2.0
#include "program/load_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "device/cuda_driver.h"
#include "isolation/names.h"
#include "ops/op_registry.h"
#include "ops/schema.h"
#include "ops/shape_inference.h"
#include "partition/refusals.h"
#include "placement/control_flow.h"
#include "placement/estimates.h"
#include "placement/survey.h"
#include "registry/engine_names.h"
#include "xrt/device.h"
#include "xrt/error.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

// Sizes that open dimensions are tried with; the first dimension of an input is 1.
constexpr std::int64_t kTrialSizes[] = {64, 224, 1};

bool lists_engine(const std::vector<std::string>& engines, const std::string& name) {
  return std::find(engines.begin(), engines.end(), name) != engines.end();
}

std::string quoted_engines(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

bool is_gpu(const std::string& device) {
  const std::optional<Device> parsed = device_of(device);
  return parsed && parsed->kind == DeviceKind::kCuda;
}

// Why an engine that is here cannot serve the program's device; empty where it can.
std::string why_not_on_device(const Engine& engine, const ProgramOptions& options) {
  const EngineInfo& info = engine.info();
  const std::string device = device_for(engine, options);
  // An engine may name the GPUs that it is written for, or compiles for, whether or not one is
  // here.
  const bool lacks_gpu = is_gpu(options.device) && CudaDriver::device_count() == 0 &&
                         std::any_of(info.devices.begin(), info.devices.end(),
                                     [](const DeviceInfo& own) { return is_gpu(own.name); });
  if (device.empty() && !lacks_gpu) {
    std::vector<std::string> names;
    for (const DeviceInfo& own : info.devices) names.push_back(own.name);
    return fmt::format("it does not drive the device '{}', but {}", options.device,
                       fmt::join(names, ", "));
  }
  if (!lacks_gpu || device == "cpu") return {};
  const auto own = options.engine_options.find(engine.name());
  std::string otherwise;
  for (const auto& [name, example] : info.offline_options) {
    if (own != options.engine_options.end() && own->second.contains(name)) return {};
    otherwise = fmt::format(
        "; it can be built for another machine with the option {}, for example {}", name, example);
  }
  return fmt::format("this machine has no GPU that CUDA's driver offers, which '{}' needs{}",
                     options.device, otherwise);
}

// As get_engine(), nothing where it cannot be had; then `reason` says why.
std::shared_ptr<const Engine> engine_or_reason(const std::string& name, std::string& reason) {
  try {
    return get_engine(name);
  } catch (const Error& error) {
    reason = error.what();
    return nullptr;
  }
}

// Names of engines that may run nodes of the program, in order: those named, or that "auto" chooses
// from, whether or not they can be had; and the one that takes what is left, unless `strict`.
std::vector<std::string> permitted_engines(const ProgramOptions& options) {
  std::vector<std::string> names = is_auto(options) ? auto_candidates(options) : options.engines;
  if (!options.strict && !lists_engine(names, kFallbackEngine)) names.emplace_back(kFallbackEngine);
  return names;
}

// Those that can be had. Loads them, which may take a second each.
std::vector<std::string> engines_at_hand(std::vector<std::string> names) {
  std::erase_if(names, [reason = std::string()](const std::string& name) mutable {
    return engine_or_reason(name, reason) == nullptr;
  });
  return names;
}

// "auto" without a list of its own chooses from what is there: one engine on the device suffices.
void check_device_of_auto(const ProgramOptions& options) {
  std::string reasons;
  for (const std::string& name : auto_candidates(options)) {
    std::string reason;
    if (const auto engine = engine_or_reason(name, reason)) {
      reason = why_not_on_device(*engine, options);
      if (reason.empty()) return;
    }
    reasons += "\n  " + name + ": " + reason;
  }
  throw Error(ErrorCode::kUnsupported, "engine 'auto' finds no engine for the device '" +
                                           options.device + "'; `xrt doctor` says more" + reasons);
}

bool entry_takes(const Survey::Entry& entry, NodeId id) {
  return static_cast<bool>(entry.answers.nodes[static_cast<std::size_t>(id.index)]);
}

const std::string& reason_of(const Survey::Entry& entry, NodeId id) {
  return entry.answers.nodes[static_cast<std::size_t>(id.index)].reason();
}

bool is_unknown_op(const Graph& graph, const Node& node) {
  return schema_of(graph, node) == nullptr && registered_op(graph, node) == nullptr;
}

bool has_unknown_ops(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (is_unknown_op(graph, node)) return true;
    for (const Graph* body : Graph::subgraphs(node)) {
      if (has_unknown_ops(*body)) return true;
    }
  }
  return false;
}

// Nodes of ops that neither the standard nor a user defines, and that no engine takes by itself.
void list_unknown_ops(const Graph& graph, const ProgramOptions& options,
                      const std::vector<std::string>& engines, const std::string& path,
                      std::vector<RefusedNode>& refused) {
  std::vector<EngineAnswers> answers;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (is_unknown_op(graph, node)) {
      if (answers.empty()) {
        for (const std::string& name : engines) {
          answers.push_back(ask(*get_engine(name), graph, options));
        }
      }
      const bool taken = std::any_of(answers.begin(), answers.end(), [&](const EngineAnswers& a) {
        return static_cast<bool>(a.nodes[static_cast<std::size_t>(id.index)]);
      });
      if (!taken) refused.push_back(refused_node(graph, id, answers, path));
      continue;
    }
    if (!is_control_flow(node)) continue;
    for (const auto& [attribute, body] : detached_bodies(graph, id)) {
      if (!has_unknown_ops(body)) continue;
      list_unknown_ops(body, options, engines, path + node.name + "/" + attribute + "/", refused);
    }
  }
}

bool has_open_inputs(const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId v) {
    return graph.type(v).is_tensor() && !graph.type(v).is_static();
  });
}

// Types of all inputs with `size` in place of what is open; nothing where a rank is.
std::optional<std::vector<std::optional<Type>>> trial_types(const Graph& graph, std::int64_t size) {
  std::vector<std::optional<Type>> types;
  std::map<std::string, std::int64_t> symbols;
  for (const ValueId v : graph.inputs()) {
    Type type = graph.type(v);
    if (!type.is_tensor() || type.is_static()) {
      types.emplace_back();
      continue;
    }
    if (!type.shape) return std::nullopt;
    for (std::size_t d = 0; d < type.shape->size(); ++d) {
      Dim& dim = (*type.shape)[d];
      if (dim.is_known()) continue;
      const std::int64_t own = d == 0 && type.shape->size() > 1 ? 1 : size;
      dim = Dim(dim.is_symbol() ? symbols.try_emplace(dim.symbol(), own).first->second : own);
    }
    types.emplace_back(std::move(type));
  }
  return types;
}

// The graph with some sizes that fit it; null where none of those tried does.
std::shared_ptr<const Graph> trial_graph(const Graph& graph, const Specialise& specialise) {
  for (const std::int64_t size : kTrialSizes) {
    const auto types = trial_types(graph, size);
    if (!types) return nullptr;
    try {
      return specialise(*types);
    } catch (const Error& error) {
      log_debug(fmt::format("open dimensions of {} do not fit '{}': {}", size, graph.name(),
                            error.what()));
    }
  }
  return nullptr;
}

// The reason without the types of the node's values, which are others for other sizes.
std::string without_types(std::string reason, const Graph& graph, NodeId id) {
  const auto drop_type_of = [&](ValueId v) {
    if (!v.valid()) return;
    const std::string type = to_string(graph.type(v));
    for (auto at = reason.find(type); at != std::string::npos; at = reason.find(type, at)) {
      reason.erase(at, type.size());
    }
  };
  for (const ValueId v : graph.dependencies(id)) drop_type_of(v);
  for (const ValueId v : graph.node(id).outputs) drop_type_of(v);
  return reason;
}

// What engines say whatever the sizes are.
class Judgement {
 public:
  Judgement(const Graph& graph, const ProgramOptions& options, const Specialise& specialise)
      : graph_(graph),
        options_(options),
        specialise_(specialise),
        is_open_(has_open_inputs(graph)),
        survey_(graph, options) {}

  // Throws as get_engine(), and as Survey::of() where every size is known.
  bool refuses(const std::string& engine, NodeId id) {
    const Survey::Entry* entry = answers_of(engine);
    if (entry == nullptr || entry_takes(*entry, id)) return false;
    if (!is_open_) return true;
    if (trial() == nullptr) return false;
    const auto same = trial_->find_node(graph_.node(id).name);
    if (!same) return false;
    const Survey::Entry& tried = trial_survey_->of(engine);
    return !entry_takes(tried, *same) && without_types(reason_of(tried, *same), *trial_, *same) ==
                                             without_types(reason_of(*entry, id), graph_, id);
  }
  bool may_take(const std::string& engine, NodeId id) {
    const Survey::Entry* entry = answers_of(engine);
    return entry == nullptr || entry_takes(*entry, id);
  }
  // Of a node that the engine refuses.
  const std::string& reason(const std::string& engine, NodeId id) {
    return reason_of(survey_.of(engine), id);
  }
  // Whether nothing is left of the node for an engine once sizes are known.
  bool is_folded(NodeId id) {
    return is_open_ && trial() != nullptr && !trial_->find_node(graph_.node(id).name);
  }
  bool is_open() const { return is_open_; }

 private:
  const Graph* trial() {
    if (!tried_) {
      tried_ = true;
      trial_ = trial_graph(graph_, specialise_);
      if (trial_ != nullptr) trial_survey_.emplace(*trial_, options_);
    }
    return trial_.get();
  }
  // Null where the engine cannot say anything as long as sizes are open: the code of a custom op
  // may be written for numbers alone. The run that brings them asks again.
  const Survey::Entry* answers_of(const std::string& engine) {
    if (!is_open_) return &survey_.of(engine);
    get_engine(engine);
    if (silent_.contains(engine)) return nullptr;
    try {
      return &survey_.of(engine);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kEngine) throw;
      log_info("engine '" + engine + "' is not judged before sizes are known: " + error.what());
      silent_.insert(engine);
      return nullptr;
    }
  }

  const Graph& graph_;
  const ProgramOptions& options_;
  const Specialise& specialise_;
  bool is_open_;
  std::set<std::string> silent_;
  Survey survey_;
  bool tried_ = false;
  std::shared_ptr<const Graph> trial_;
  std::optional<Survey> trial_survey_;
};

// A device that was named, and that nothing would run on.
void check_device_is_used(const Graph& graph, const ProgramOptions& options,
                          const std::vector<std::string>& engines, Judgement& judgement) {
  if (options.device == "cpu" || options.fallback || graph.node_count() == 0) return;
  std::vector<NodeId> nodes = graph.topological_order();
  std::erase_if(nodes, [&](NodeId id) { return judgement.is_folded(id); });
  if (nodes.empty()) return;
  std::string reasons;
  for (const std::string& name : engines) {
    std::string reason;
    const auto engine = engine_or_reason(name, reason);
    if (engine == nullptr || device_for(*engine, options) != options.device) continue;
    const bool idle = std::all_of(nodes.begin(), nodes.end(),
                                  [&](NodeId id) { return judgement.refuses(name, id); });
    if (!idle) return;
    const Node& first = graph.node(nodes.front());
    reasons += fmt::format("\n  {}: not '{}' ({}): {}", name, first.name, first.qualified_op(),
                           judgement.reason(name, nodes.front()));
  }
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("nothing of the model can run on the device '{}'{}", options.device, reasons));
}

// With open dimensions: nodes that every permitted engine refuses, and overrides that cannot be.
void check_nodes(const Graph& graph, const ProgramOptions& options,
                 const std::vector<std::string>& permitted, Judgement& judgement) {
  for (const auto& [name, engine] : options.node_engines) {
    const auto id = graph.find_node(name);
    if (!id || engine == kRuntimeEngine || !judgement.refuses(engine, *id)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("node_engines puts node '{}' on engine '{}', which refuses it: {}",
                            name, engine, judgement.reason(engine, *id)));
  }
  std::vector<NodeId> suspects = graph.topological_order();
  std::erase_if(suspects, [&](NodeId id) {
    if (options.node_engines.contains(graph.node(id).name)) return true;
    return static_cast<bool>(can_drive(graph, id));  // its bodies may run somewhere
  });
  const auto keep_refused = [&](const std::string& name) {
    std::erase_if(suspects, [&](NodeId id) { return judgement.may_take(name, id); });
  };
  // The engine that takes nearly everything is asked first: the others need not be loaded then.
  if (lists_engine(permitted, kFallbackEngine)) keep_refused(kFallbackEngine);
  if (suspects.empty()) return;
  const std::vector<std::string> engines = engines_at_hand(permitted);
  for (const std::string& name : engines) keep_refused(name);
  std::vector<RefusedNode> refused;
  for (const NodeId id : suspects) {
    const bool by_all = std::all_of(engines.begin(), engines.end(), [&](const std::string& name) {
      return judgement.refuses(name, id);
    });
    if (!by_all) continue;
    RefusedNode& node =
        refused.emplace_back(RefusedNode{graph.node(id).name, graph.node(id).qualified_op(), {}});
    for (const std::string& name : engines) {
      node.reasons.emplace_back(name, judgement.reason(name, id));
    }
  }
  if (!refused.empty()) throw Error(ErrorCode::kUnsupported, refusals_text(refused));
}

// "'a' (Relu): reason"
std::string told_refusal(const Explanation::NodeRow& row, const std::string& engine) {
  const auto reason = row.refusals.find(engine);
  return fmt::format("'{}' ({}){}", row.name, row.op,
                     reason == row.refusals.end() ? "" : ": " + reason->second);
}

}  // namespace

ProgramOptions without_missing_engines(ProgramOptions options) {
  if (!options.fallback || options.engines.empty()) return options;
  const std::vector<std::string> all = engine_names();
  std::vector<std::string> left;
  for (const std::string& name : options.engines) {
    std::string reason;
    if (name != "auto" && name != kFallbackEngine &&
        lists_engine(all, std::string(base_engine(name)))) {
      const auto engine = engine_or_reason(name, reason);
      if (engine != nullptr) reason = why_not_on_device(*engine, options);
    }
    if (reason.empty()) {
      left.push_back(name);
    } else {
      log_warning("fallback: the program goes without engine '" + name + "': " + reason);
    }
  }
  if (left.empty() && options.strict) {
    throw Error(ErrorCode::kEngine, "none of the engines " + quoted_engines(options.engines) +
                                        " can be had, and `strict` permits no other");
  }
  if (left.empty()) left.emplace_back(kFallbackEngine);
  options.engines = std::move(left);
  return options;
}

void check_engines(const ProgramOptions& options) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < options.engines.size(); ++i) {
    const std::string& name = options.engines[i];
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::kInvalidArgument, "engine '" + name + "' is listed twice");
    }
    if (name == "auto" && i > 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "'auto' stands first in a list of engines: those behind it are its candidates");
    }
  }
  for (const std::string& name : options.engines) {
    if (name == "auto") continue;
    const std::string reason = why_not_on_device(*get_engine(name), options);
    if (reason.empty()) continue;
    throw Error(ErrorCode::kUnsupported,
                "engine '" + name + "' cannot be used: " + reason +
                    (options.engines.size() == 1 ? "" : "; leave it out, or set `fallback`"));
  }
  if (options.engines.size() == 1 && is_auto(options) && options.device != "cpu") {
    check_device_of_auto(options);
  }
  for (const auto& [node, name] : options.node_engines) {
    if (name == kRuntimeEngine) continue;
    get_engine(name);
    // Where "native" is not listed, it belongs to the program if nodes are left over.
    if (is_auto(options) || name == kFallbackEngine || seen.contains(name)) continue;
    throw Error(ErrorCode::kInvalidArgument, "node_engines puts node '" + node + "' on engine '" +
                                                 name +
                                                 "', which is not among the program's engines");
  }
}

void check_runnable(const Graph& graph, const ProgramOptions& options,
                    const Specialise& specialise) {
  const std::vector<std::string> engines = permitted_engines(options);
  if (has_unknown_ops(graph)) {
    std::vector<RefusedNode> unknown;
    list_unknown_ops(graph, options, engines_at_hand(engines), "", unknown);
    if (!unknown.empty()) throw Error(ErrorCode::kUnsupported, refusals_text(unknown));
  }
  Judgement judgement(graph, options, specialise);
  check_device_is_used(graph, options, engines, judgement);
  if (judgement.is_open()) check_nodes(graph, options, engines, judgement);
}

void tell_leftovers(const Explanation& plan, const ProgramOptions& options) {
  if (plan.nodes.empty()) return;
  const auto nodes_of = [&](const std::string& engine) {
    return std::count_if(plan.nodes.begin(), plan.nodes.end(),
                         [&](const Explanation::NodeRow& row) { return row.engine == engine; });
  };
  const std::vector<std::string>& engines = options.engines;
  for (auto name = engines.begin(); name != engines.end() && !is_auto(options); ++name) {
    // What is left over may be nothing.
    if (*name == kFallbackEngine || nodes_of(*name) > 0) continue;
    // A node that it could have had, and that went to an engine behind it.
    const auto row = std::find_if(plan.nodes.begin(), plan.nodes.end(), [&](const auto& r) {
      return r.refusals.contains(*name) && std::find(engines.begin(), name, r.engine) == name;
    });
    if (row == plan.nodes.end()) continue;
    log_warning(fmt::format("engine '{}' runs none of the {} nodes; not {}", *name,
                            plan.nodes.size(), told_refusal(*row, *name)));
  }
  const bool listed = lists_engine(engines, kFallbackEngine);
  const auto left = nodes_of(kFallbackEngine);
  if (listed || left == 0 || (is_auto(options) && options.device == "cpu")) return;
  const auto row =
      std::find_if(plan.nodes.begin(), plan.nodes.end(), [&](const Explanation::NodeRow& r) {
        return r.engine == kFallbackEngine && !r.refusals.empty();
      });
  if (row == plan.nodes.end()) return;  // node_engines puts them there
  log_warning(fmt::format(
      "{} of {} nodes run on '{}'{}, which is not among the engines named; {} does not take {}",
      left, plan.nodes.size(), kFallbackEngine, options.device == "cpu" ? "" : " and the CPU",
      row->refusals.begin()->first, told_refusal(*row, row->refusals.begin()->first)));
}

}  // namespace xrt
