// SPDX-License-Identifier: Apache-2.0
// Building a plan: place, fold, compile, lay out memory.
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "cache/cache_entry.h"
#include "cache/compile_cache.h"
#include "device/threads.h"
#include "exec/control_flow.h"
#include "exec/run_state.h"
#include "ir/printer.h"
#include "onnx/exporter.h"
#include "partition/fold.h"
#include "placement/estimates.h"
#include "placement/placement.h"
#include "placement/precision.h"
#include "placement/survey.h"
#include "plan/compile_progress.h"
#include "plan/plan_draft.h"
#include "registry/engine_failure.h"
#include "registry/op_lowering.h"
#include "xrt/cache.h"
#include "xrt/engine_remarks.h"
#include "xrt/engine_stream.h"
#include "xrt/version.h"

namespace xrt {
namespace {

void dump_text(const std::filesystem::path& dir, const std::string& name, const Graph& graph) {
  if (dir.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed) {
    throw Error(ErrorCode::kIo,
                "cannot make the folder for dumps, '" + dir.string() + "': " + failed.message());
  }
  write_output_file(dir / (name + ".txt"), print(graph));
}

bool can_preallocate(const Type& type) {
  return type.is_static() && type.dtype != DType::kString && type.dtype != DType::kUndefined;
}

std::size_t static_bytes(const Graph& graph, const std::vector<ValueId>& values) {
  std::size_t bytes = 0;
  for (const ValueId v : values) {
    if (!v.valid() || !can_preallocate(graph.type(v))) continue;
    bytes += byte_count(graph.type(v).dtype, *graph.type(v).static_dims());
  }
  return bytes;
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const ValueId v : values) names.push_back(v.valid() ? graph.value(v).name : std::string{});
  return names;
}

std::vector<std::string> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> types;
  types.reserve(values.size());
  for (const ValueId v : values) types.push_back(v.valid() ? to_string(graph.type(v)) : "");
  return types;
}

std::size_t output_position(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.value(graph.outputs()[i]).name == name) return i;
  }
  throw Error(ErrorCode::kInvalidArgument, "aliases: the graph has no output '" + name + "'");
}

std::size_t input_position(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.value(graph.inputs()[i]).name == name) return i;
  }
  throw Error(ErrorCode::kInvalidArgument, "aliases: the graph has no input '" + name + "'");
}

// The rows of nodes, with what every engine said about them.
void fill_rows(const Graph& graph, const Placement& placement, PlanDraft& draft) {
  Explanation& explanation = draft.explanation;
  explanation.notes = placement.notes;
  const std::vector<NodeId> launches = draft.folded.nodes();  // in the order of the clusters
  for (const NodeId id : graph.topological_order()) {
    const auto index = static_cast<std::size_t>(id.index);
    const auto cluster = static_cast<std::size_t>(placement.partition.cluster_of[index]);
    const Node& node = graph.node(id);
    Explanation::NodeRow row;
    row.name = node.name;
    row.op = node.qualified_op();
    const Node& launch = draft.folded.node(launches.at(cluster));
    row.engine = launch.attr_string("engine", "");
    row.function = launch.attr_string("name", launch.name);
    row.inputs = names_of(graph, node.inputs);
    row.outputs = names_of(graph, node.outputs);
    row.input_types = types_of(graph, node.inputs);
    row.output_types = types_of(graph, node.outputs);
    for (const EngineAnswers& a : placement.answers) {
      if (a.engine == kRuntimeEngine) continue;  // what it does not drive it has no say in
      if (!a.nodes[index]) row.refusals[a.engine] = a.nodes[index].reason();
    }
    for (const Demotion& demotion : placement.partition.demotions) {
      if (demotion.node != id) continue;
      row.refusals[placement.answers[demotion.engine].engine] = fmt::format(
          "cluster_minimum_nodes: the node would be in a cluster of {}", demotion.cluster_nodes);
    }
    ++explanation.nodes_per_engine[row.engine];
    explanation.nodes.push_back(std::move(row));
  }
}

// Whether constants are handed to launches or given out by them, whatever their executables hold.
bool reads_constants(const Graph& folded) {
  if (!folded.constants().empty()) return true;
  for (const NodeId id : folded.nodes()) {
    const std::shared_ptr<const Graph> body = folded.node(id).attr_graph("function");
    for (const ValueId v : body->outputs()) {
      if (body->value(v).origin == Origin::kConstant) return true;
    }
  }
  return false;
}

// The engine that drives control flow: bodies are placed on the engines before it in the list.
std::shared_ptr<const Engine> runtime_engine(const PlanDraft& draft, ProgramOptions options,
                                             const std::string& scope) {
  options.engines.clear();
  for (const std::string& name : draft.engines) {
    if (name == kRuntimeEngine) break;
    options.engines.push_back(name);
  }
  options.aliases.clear();
  options.precision = draft.precision;
  return std::make_shared<RuntimeEngine>(std::move(options), scope);
}

// The batch that engines are told to build for: the option, or what the inputs have if that is
// more.
std::int64_t batch_to_build_for(const Graph& graph, const ProgramOptions& options) {
  if (options.max_batch_size == 0) return 0;
  std::int64_t batch = options.max_batch_size;
  for (const ValueId v : graph.inputs()) {
    const Type& type = graph.type(v);
    if (!type.is_tensor() || !type.shape || type.shape->empty()) continue;
    const Dim& first = type.shape->front();
    if (first.is_known()) batch = std::max(batch, first.value());
  }
  return batch;
}

// Compiles what the engine claimed, the nodes of `claimed`; a failure names them, the engine and
// the cause.
CompileResult compile_claimed(const Engine& engine, const Graph& claimed, const Function& function,
                              const CompileOptions& options, const std::filesystem::path& cache,
                              const std::string& key, bool anew,
                              const std::function<void()>& check_constants) {
  bool wrong_constants = false;
  std::function<void()> check;
  if (check_constants) {
    check = [&] {
      wrong_constants = true;
      check_constants();
      wrong_constants = false;
    };
  }
  const auto fail = [&](ErrorCode code, const std::string& cause) {
    std::vector<std::string> nodes, ops;
    for (const NodeId id : claimed.topological_order()) {
      nodes.push_back(claimed.node(id).name);
      ops.push_back(claimed.node(id).qualified_op());
    }
    std::vector<std::pair<std::string_view, std::string_view>> rows;
    for (std::size_t i = 0; i < nodes.size(); ++i) rows.emplace_back(nodes[i], ops[i]);
    const std::string what = "engine '" + engine.name() + "' claimed " + list_nodes(rows) +
                             " and failed to compile function '" + function.name + "': ";
    throw CompileFailure(code, what + cause, engine.name(), std::move(nodes),
                         "engine '" + engine.name() + "' failed to compile it: " + cause);
  };
  CompileResult result;
  try {
    result = compile_cached(engine, function, options, cache, key, anew, check);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& error) {
    // A wrong option or a bound is the caller's to change, whoever runs the nodes.
    if (error.code() == ErrorCode::kInvalidArgument || wrong_constants) throw;
    fail(error.code(), error.what());
  } catch (...) {
    fail(ErrorCode::kEngine, exception_text());
  }
  if (result.executable == nullptr) fail(ErrorCode::kEngine, "it returned no executable");
  const std::size_t needed = result.executable->workspace_bytes();
  if (options.max_workspace_bytes > 0 && needed > options.max_workspace_bytes) {
    fail(ErrorCode::kResource, "it needs " + std::to_string(needed) +
                                   " bytes of scratch memory, max_workspace_size is " +
                                   std::to_string(options.max_workspace_bytes));
  }
  return result;
}

}  // namespace

Plan::~Plan() = default;

std::shared_ptr<Plan> Plan::build(Survey& survey, const Decision& decision,
                                  const std::string& scope, PlanDraft* kept) {
  for (;;) {
    PlanDraft made = draft(survey, decision, scope);
    try {
      std::shared_ptr<Plan> plan = finish(made, survey.options(), scope);
      plan->annotate(decision);
      if (kept != nullptr) *kept = std::move(made);
      return plan;
    } catch (const CompileFailure& failure) {
      const bool again =
          survey.options().fallback && survey.refuse(failure.engine, failure.nodes, failure.reason);
      if (!again) throw;
      log_warning(failure.what() + std::string(": its nodes go to the next engine"));
    }
  }
}

PlanDraft Plan::draft(Survey& survey, const Decision& decision, const std::string& scope) {
  const Graph& graph = survey.graph();
  const Placement placement = place(survey, decision, scope);
  PlanDraft draft;
  for (const auto& engine : placement.engines) {
    const std::string name = engine->name();
    draft.engines.push_back(name);
    if (name == kRuntimeEngine) {
      draft.identities.emplace_back(version());
    } else {
      draft.identities.push_back(engine_stamp(name).empty() ? "" : engine_identity(name));
    }
  }
  draft.folded = fold(graph, placement.partition, draft.engines);
  draft.output_names = names_of(graph, graph.outputs());
  draft.precision = decision.precision;
  draft.explanation.placement = decision.placement;
  draft.explanation.precision = decision.precision;
  draft.explanation.candidates = decision.candidates;
  for (const auto& [in, out] : survey.options().aliases) {
    const std::pair pair{input_position(graph, in), output_position(graph, out)};
    const Type& a = graph.type(graph.inputs()[pair.first]);
    const Type& b = graph.type(graph.outputs()[pair.second]);
    if (a.dtype != b.dtype || !a.is_static() || a.shape != b.shape) {
      throw Error(ErrorCode::kInvalidArgument, "aliases: input '" + in + "' is " + to_string(a) +
                                                   " and output '" + out + "' is " + to_string(b) +
                                                   "; they must be equal and static");
    }
    draft.aliases.push_back(pair);
  }
  fill_rows(graph, placement, draft);
  return draft;
}

std::shared_ptr<Plan> Plan::finish(PlanDraft& draft, const ProgramOptions& options,
                                   const std::string& scope) {
  dump_text(options.dump_dir, "launches", draft.folded);
  auto plan = std::make_shared<Plan>();
  plan->aliases_ = draft.aliases;
  plan->output_names_ = draft.output_names;
  plan->device_ = device_of(options.device).value_or(Device{});
  plan->explanation_ = draft.explanation;
  if (draft.check_constants && reads_constants(draft.folded)) draft.check_constants();
  plan->assign_slots(draft.folded, scope);
  plan->assign_aliases();
  plan->compile(draft, with_precision(options, draft.precision), scope);
  plan->assign_devices();
  plan->plan_memory();
  plan->follows_stream_ = plan->follows_stream();
  return plan;
}

void Plan::assign_slots(const Graph& folded, const std::string& scope) {
  slots_.resize(folded.value_capacity());
  const auto slot_of = [](ValueId v) { return static_cast<std::size_t>(v.index); };
  for (std::size_t i = 0; i < folded.inputs().size(); ++i) {
    Slot& slot = slots_[slot_of(folded.inputs()[i])];
    slot.place = Place::kInput;
    slot.index = i;
    input_slots_.push_back(slot_of(folded.inputs()[i]));
  }
  for (const ValueId v : folded.constants()) {
    Slot& slot = slots_[slot_of(v)];
    slot.place = Place::kConstant;
    slot.constant = folded.value(v).constant;
  }
  for (const NodeId id : folded.nodes()) {
    const Node& node = folded.node(id);
    auto launch = std::make_unique<Launch>();
    launch->name = node.attr_string("name", node.name);
    launch->engine = node.attr_string("engine", "");
    launch->traced_name = scope + launch->name;
    for (const ValueId v : node.inputs) {
      slots_[slot_of(v)].readers.emplace_back(launches_.size(), launch->inputs.size());
      launch->inputs.push_back(slot_of(v));
    }
    for (const ValueId v : node.outputs) {
      Slot& slot = slots_[slot_of(v)];
      const Type& type = folded.type(v);
      slot.preallocate = can_preallocate(type);
      slot.type = type;
      slot.dtype = type.dtype;
      if (slot.preallocate) {
        slot.dims = *type.static_dims();
        slot.place = Place::kArena;
      }
      launch->outputs.push_back(slot_of(v));
    }
    launches_.push_back(std::move(launch));
  }
  for (std::size_t i = 0; i < folded.outputs().size(); ++i) {
    const std::size_t s = slot_of(folded.outputs()[i]);
    Slot& slot = slots_[s];
    const bool first = slot.place == Place::kArena || slot.place == Place::kDynamic;
    if (first) {
      slot.place = Place::kOutput;
      slot.index = i;
    }
    outputs_.push_back({s, !first});
  }
}

// The output may be written over the input where its launch is the last that reads the input,
// nobody else is to see the old value, and the engine can do so. All other aliases are copied when
// the run is over.
void Plan::assign_aliases() {
  for (const auto& [input, output] : aliases_) {
    const std::size_t from = input_slots_[input];
    const std::size_t to = outputs_[output].slot;
    const Slot& source = slots_[from];
    const bool handed_out = std::any_of(outputs_.begin(), outputs_.end(),
                                        [&](const OutputSource& o) { return o.slot == from; });
    const auto uses = std::count_if(aliases_.begin(), aliases_.end(),
                                    [wanted = input](const auto& a) { return a.first == wanted; });
    if (outputs_[output].copy || handed_out || uses != 1) continue;
    for (std::size_t l = 0; l < launches_.size(); ++l) {
      Launch& launch = *launches_[l];
      const auto out = std::find(launch.outputs.begin(), launch.outputs.end(), to);
      const auto in = std::find(launch.inputs.begin(), launch.inputs.end(), from);
      if (out == launch.outputs.end() || in == launch.inputs.end()) continue;
      const bool last = std::all_of(source.readers.begin(), source.readers.end(),
                                    [&](const auto& reader) { return reader.first <= l; });
      if (!last || launch.engine == kRuntimeEngine) continue;
      if (!get_engine(launch.engine)->in_place()) continue;
      launch.aliases.push_back({static_cast<std::int32_t>(in - launch.inputs.begin()),
                                static_cast<std::int32_t>(out - launch.outputs.begin())});
    }
  }
}

void Plan::assign_devices() {
  for (const auto& launch : launches_) launch->device = launch->executable->device();
  for (const auto& launch : launches_) {
    if (launch->device.is_host()) continue;
    for (const std::size_t s : launch->outputs) {
      Slot& slot = slots_[s];
      const bool is_output = slot.place == Place::kOutput;
      if (!slot.preallocate || is_packed(slot.dtype) || (!is_output && slot.place != Place::kArena))
        continue;
      slot.stays_on_device = std::any_of(
          slot.readers.begin(), slot.readers.end(),
          [&](const auto& reader) { return launches_[reader.first]->device == launch->device; });
      if (slot.stays_on_device && !is_output) slot.place = Place::kDynamic;
    }
  }
}

bool Plan::follows_stream() const {
  if (launches_.size() != 1 || !aliases_.empty() || device_.is_host()) return false;
  const Launch& launch = *launches_.front();
  const auto* follower = dynamic_cast<const FollowsStream*>(launch.executable.get());
  if (follower == nullptr || !follower->follows_stream() || launch.device != device_) return false;
  const auto is_written_there = [&](const OutputSource& output) {
    const Slot& slot = slots_[output.slot];
    return !output.copy && slot.place == Place::kOutput && slot.preallocate &&
           !is_packed(slot.dtype);
  };
  return launch.aliases.empty() && std::all_of(outputs_.begin(), outputs_.end(), is_written_there);
}

void Plan::plan_memory() {
  std::vector<BufferLife> lives;
  std::vector<Slot*> owners;
  for (std::size_t l = 0; l < launches_.size(); ++l) {
    for (const std::size_t s : launches_[l]->outputs) {
      Slot& slot = slots_[s];
      if (slot.place != Place::kArena) continue;
      std::size_t last = l;
      for (const auto& [reader, position] : slot.readers) last = std::max(last, reader);
      lives.push_back({byte_count(slot.dtype, slot.dims), l, last});
      owners.push_back(&slot);
    }
  }
  const ArenaPlan arena = plan_arena(lives);
  for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->offset = arena.offsets[i];
  arena_bytes_ = arena.bytes;
  explanation_.arena_bytes = arena.bytes;
}

void Plan::compile(PlanDraft& draft, const ProgramOptions& options, const std::string& scope) {
  const Graph& folded = draft.folded;
  const std::filesystem::path cache = options.cache_dir ? *options.cache_dir : default_cache_dir();
  const bool has_keys = !draft.keys.empty();
  std::size_t index = 0;
  for (const NodeId id : folded.nodes()) {
    throw_if_interrupted();
    const Node& node = folded.node(id);
    Launch& launch = *launches_.at(index);
    const bool is_runtime = launch.engine == kRuntimeEngine;
    const std::shared_ptr<const Engine> engine =
        is_runtime ? runtime_engine(draft, options, scope) : get_engine(launch.engine);
    const std::shared_ptr<const Graph> body = node.attr_graph("function");
    CompileOptions compile_options;
    compile_options.device =
        launch.engine == kRuntimeEngine ? options.device : device_for(*engine, options);
    compile_options.phase = options.training ? Phase::kTraining : Phase::kInference;
    std::optional<Graph> lowered;
    if (!is_runtime && has_registered_ops(*body)) {
      lowered = lower_ops(*engine, *body, compile_options.device, compile_options.phase);
    }
    const Graph& compiled = lowered ? *lowered : *body;
    dump_text(options.dump_dir, launch.name, compiled);
    Function function{launch.name, compiled, launch.aliases, [&](std::size_t inline_limit) {
                        ExportOptions export_options;
                        export_options.inline_limit = inline_limit;
                        return export_onnx(compiled, export_options);
                      }};
    if (!cache.empty()) compile_options.records_dir = cache / "records" / launch.engine;
    compile_options.num_threads = granted_threads(options.num_threads);
    const auto own = options.engine_options.find(launch.engine);
    if (own != options.engine_options.end()) compile_options.engine_options = own->second;
    compile_options.progress = compile_progress(launch.name);
    compile_options.max_workspace_bytes = options.max_workspace_bytes;
    compile_options.max_batch_size = batch_to_build_for(folded, options);

    const auto start = Profiler::Clock::now();
    if (!has_keys) {
      draft.keys.push_back(is_runtime ? "" : compile_key(*engine, function, compile_options));
    }
    if (is_runtime && draft.check_constants) draft.check_constants();
    const CompileResult result =
        is_runtime
            ? CompileResult{engine->compile(function, compile_options), false}
            : compile_claimed(*engine, *body, function, compile_options, cache,
                              draft.keys.at(index), options.force_compile, draft.check_constants);
    ++index;
    launch.executable = result.executable;
    if (is_runtime) {
      launch.control_flow = std::dynamic_pointer_cast<const ControlFlow>(launch.executable);
    }
    launch.threads = thread_use(launch, compile_options);
    if (!is_runtime && launch.engine != kFallbackEngine) launch.index_checks = index_checks(*body);
    if (const auto* told = dynamic_cast<const TellsRemarks*>(launch.executable.get())) {
      for (const std::string& remark : told->remarks()) {
        explanation_.notes.push_back(fmt::format("{}: {}", launch.name, remark));
      }
    }

    Explanation::LaunchRow row;
    row.function = launch.name;
    row.engine = launch.engine;
    row.nodes = body->node_count();
    row.input_bytes = static_bytes(folded, node.inputs);
    row.output_bytes = static_bytes(folded, node.outputs);
    row.workspace_bytes = launch.executable->workspace_bytes();
    if (options.max_workspace_bytes > 0) check_workspace_known(launch);
    row.compile_ms =
        std::chrono::duration<double, std::milli>(Profiler::Clock::now() - start).count();
    row.from_cache = result.from_cache;
    row.reads = names_of(folded, node.inputs);
    row.writes = names_of(folded, node.outputs);
    launch.row = explanation_.launches.size();
    explanation_.launches.push_back(std::move(row));
  }
}

// A bound that nothing enforces is said to be none.
void Plan::check_workspace_known(const Launch& launch) {
  const auto* told = dynamic_cast<const TellsWorkspace*>(launch.executable.get());
  if (told == nullptr || told->workspace_known()) return;
  std::string note = "max_workspace_size does not bind engine '" + launch.engine +
                     "': it does not tell what scratch memory its functions need";
  auto& notes = explanation_.notes;
  if (std::find(notes.begin(), notes.end(), note) != notes.end()) return;
  log_warning(note);
  notes.push_back(std::move(note));
}

// What a run of the launch counts with: launches of a body that the runtime drives count
// themselves.
LaunchUse Plan::thread_use(const Launch& launch, const CompileOptions& options) {
  if (launch.control_flow != nullptr || !options.device.starts_with("cpu")) return {0, nullptr};
  const auto* told = dynamic_cast<const TellsThreadUse*>(launch.executable.get());
  if (told == nullptr) return {options.num_threads, nullptr};
  LaunchUse use{told->thread_use()};
  if (const auto* pool = dynamic_cast<const TellsPoolUse*>(launch.executable.get())) {
    use.lingering = pool->lingering();
    use.launches = pool->runs_at_once();
  }
  return use;
}

void Plan::annotate(const Decision& decision) {
  explanation_.placement = decision.placement;
  explanation_.precision = decision.precision;
  explanation_.candidates = decision.candidates;
  for (const std::string& note : decision.notes) {
    auto& notes = explanation_.notes;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  for (const auto& launch : launches_) {
    launch->runs = 0;
    launch->first_ns = 0;
    launch->later_ns = 0;
  }
}

Explanation Plan::explain() const {
  Explanation copy = explanation_;
  for (const auto& launch : launches_) {
    Explanation::LaunchRow& row = copy.launches[launch->row];
    row.runs = launch->runs.load(std::memory_order_relaxed);
    const bool once = row.runs <= 1;  // else the first run is left out
    const auto ns = (once ? launch->first_ns : launch->later_ns).load(std::memory_order_relaxed);
    row.mean_us = static_cast<double>(ns) / 1000.0 / static_cast<double>(once ? 1 : row.runs - 1);
  }
  for (const auto& launch : launches_) {
    if (launch->control_flow != nullptr) launch->control_flow->explain(copy);
  }
  return copy;
}

const Dims* Plan::output_dims(std::size_t output) const {
  const Slot& slot = slots_[outputs_[output].slot];
  return slot.preallocate ? &slot.dims : nullptr;
}

std::size_t Plan::workspace_bytes() const {
  std::size_t bytes = arena_bytes_;
  for (const auto& launch : launches_) bytes += launch->executable->workspace_bytes();
  return bytes;
}

}  // namespace xrt
