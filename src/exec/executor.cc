// SPDX-License-Identifier: Apache-2.0
// Making an executor: compile a plan, lay out memory.
#include "exec/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "device/threads.h"
#include "exec/control_flow.h"
#include "exec/run_state.h"
#include "exec/stand_in.h"
#include "isolation/names.h"
#include "placement/decision.h"
#include "placement/survey.h"
#include "plan/functions.h"
#include "plan/plan.h"
#include "registry/engine_manifest.h"
#include "registry/engine_names.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

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

// Options for the bodies of control flow: they are placed on the engines before "runtime" in the
// list.
ProgramOptions body_options(const Plan& plan, ProgramOptions options) {
  options.engines.clear();
  for (const std::string& name : plan.engines) {
    if (name == kRuntimeEngine) break;
    options.engines.push_back(name);
  }
  options.aliases.clear();
  options.precision = plan.precision;
  return options;
}

// What the runtime judges of a function's operands before the engine has them.
ValueChecks::Judge judge_for(const Engine& engine, const ProgramOptions& options) {
  if (engine.info().checks_indices) return ValueChecks::Judge::kKnown;
  if (engine_manifest(engine.name()).crashes_on_values) return ValueChecks::Judge::kAll;
  // An engine that judges sizes does so without limits of time and memory in mind.
  const bool is_bounded = options.deadline_s > 0 || options.max_memory_bytes > 0;
  if (is_bounded) return ValueChecks::Judge::kBounded;
  return checks_values(engine) ? ValueChecks::Judge::kEngine : ValueChecks::Judge::kHere;
}

}  // namespace

Executor::~Executor() = default;

std::shared_ptr<Executor> Executor::build(Survey& survey, const Decision& decision,
                                          const std::string& scope, Plan* kept) {
  for (;;) {
    Plan made = make_plan(survey, decision);
    try {
      std::shared_ptr<Executor> plan = finish(made, survey.options(), scope);
      plan->annotate(decision);
      if (kept != nullptr) *kept = std::move(made);
      return plan;
    } catch (const CompileFailure& failure) {
      const bool again = (survey.options().fallback || failure.computes_wrong) &&
                         survey.refuse(failure.engine, failure.nodes, failure.reason);
      if (!again) throw;
      log_warning(failure.what() + std::string(": its nodes go to the next engine"));
    }
  }
}

std::shared_ptr<Executor> Executor::finish(Plan& plan, const ProgramOptions& options,
                                           const std::string& scope) {
  dump_graph(options.dump_dir, "launches", plan.folded);
  auto made = std::make_shared<Executor>();
  made->aliases_ = plan.aliases;
  made->output_names_ = plan.output_names;
  made->device_ = device_of(options.device).value_or(Device{});
  made->explanation_ = plan.explanation;
  made->most_bytes_ = memory_bound(options.max_memory_bytes);
  for (const NodeId id : plan.folded.nodes()) {
    check_value_bytes(*plan.folded.node(id).attr_graph("function"), made->most_bytes_);
  }
  if (plan.check_constants && reads_constants(plan.folded)) plan.check_constants();
  made->assign_slots(plan.folded, scope);
  made->assign_aliases();
  made->compile(plan, options, scope);
  made->assign_devices();
  made->plan_memory();
  made->follows_stream_ = made->follows_stream();
  if (scope.empty()) {
    made->warnings_ = plan.warnings;
  } else {
    for (const std::string& warning : plan.warnings) log_warning(warning);
  }
  return made;
}

void Executor::assign_slots(const Graph& folded, const std::string& scope) {
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
void Executor::assign_aliases() {
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
      if (!get_engine(launch.engine)->info().in_place) continue;
      launch.aliases.push_back({static_cast<std::int32_t>(in - launch.inputs.begin()),
                                static_cast<std::int32_t>(out - launch.outputs.begin())});
    }
  }
}

void Executor::assign_devices() {
  for (const auto& launch : launches_) launch->device = launch->info.device;
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

bool Executor::follows_stream() const {
  if (launches_.size() != 1 || !aliases_.empty() || device_.is_host()) return false;
  const Launch& launch = *launches_.front();
  if (!launch.info.follows_stream || launch.device != device_) return false;
  const auto is_written_there = [&](const OutputSource& output) {
    const Slot& slot = slots_[output.slot];
    return !output.copy && slot.place == Place::kOutput && slot.preallocate &&
           !is_packed(slot.dtype);
  };
  return launch.aliases.empty() && std::all_of(outputs_.begin(), outputs_.end(), is_written_there);
}

void Executor::plan_memory() {
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

void Executor::compile(Plan& plan, const ProgramOptions& options, const std::string& scope) {
  const Graph& folded = plan.folded;
  const auto shared_options = std::make_shared<const ProgramOptions>(options);
  std::size_t index = 0;
  for (const NodeId id : folded.nodes()) {
    throw_if_interrupted();
    const Node& node = folded.node(id);
    Launch& launch = *launches_.at(index);
    const std::shared_ptr<const Graph> body = node.attr_graph("function");
    const auto start = Profiler::Clock::now();
    Explanation::LaunchRow row;
    if (launch.engine == kRuntimeEngine) {
      if (plan.keys.size() <= index) plan.keys.emplace_back();
      if (plan.check_constants) plan.check_constants();
      launch.control_flow = make_control_flow(*body, body_options(plan, options), scope);
    } else {
      const auto engine = get_engine(launch.engine);
      const ValueChecks::Judge judge = judge_for(*engine, options);
      // Every run would fail; a body may never run.
      if (scope.empty() && judge != ValueChecks::Judge::kEngine) check_sizes(*body, most_bytes_);
      if (engine_manifest(launch.engine).allocates_when_compiled) {
        check_room(launch, least_memory(*body, plan.precision != Precision::kF32));
      }
      CompiledFunction made = compile_function(plan, id, index, launch.aliases, options);
      launch.executable = std::move(made.executable);
      launch.key = plan.keys.at(index);
      launch.graph = body;
      launch.info = std::move(made.info);
      launch.is_rounded = made.is_rounded;
      row.from_cache = made.from_cache;
      const bool narrow = launch.is_rounded || plan.precision != Precision::kF32;
      const int threads = granted_threads(options.num_threads);
      if (options.device == "cpu") launch.least_time = least_time(*body, narrow, threads);
      const bool tells_memory = launch.info.workspace_bytes.has_value();
      if (!tells_memory) launch.least_memory = least_memory(*body, narrow);
      check_room(launch, launch.least_memory);
      // Such an engine may keep memory of its own for what it reads.
      const std::size_t read = tells_memory ? 0 : static_bytes(*body, body->inputs());
      if (read > most_bytes_) {
        fail_bound(launch, fmt::format("its inputs have {} bytes; a run may take {} "
                                       "(max_memory_bytes)",
                                       read, most_bytes_));
      }
      auto checks = std::make_unique<ValueChecks>(body, judge, most_bytes_, threads, tells_memory);
      if (checks->any()) launch.value_checks = std::move(checks);
      if (launch.engine != kFallbackEngine && options.device == "cpu") {
        launch.stand_in =
            std::make_unique<StandIn>(body, launch.name, scope, launch.engine, shared_options);
      }
      launch.is_isolated = is_isolated(launch.engine);
      launch.threads = {launch.info.threads, launch.info.pool, launch.info.runs_at_once};
      for (const std::string& remark : launch.info.remarks) {
        explanation_.notes.push_back(fmt::format("{}: {}", launch.name, remark));
      }
      if (options.max_workspace_bytes > 0) check_workspace_known(launch);
    }
    ++index;
    row.function = launch.name;
    row.engine = launch.engine;
    row.nodes = body->node_count();
    row.input_bytes = static_bytes(folded, node.inputs);
    row.output_bytes = static_bytes(folded, node.outputs);
    row.workspace_bytes = workspace_bytes(launch);
    row.weight_bytes = launch.info.weight_bytes;
    row.compile_ms =
        std::chrono::duration<double, std::milli>(Profiler::Clock::now() - start).count();
    row.reads = names_of(folded, node.inputs);
    row.writes = names_of(folded, node.outputs);
    launch.row = explanation_.launches.size();
    explanation_.launches.push_back(std::move(row));
  }
}

void Executor::check_room(const Launch& launch, const LeastMemory& least) const {
  if (least.bytes <= most_bytes_) return;
  fail_bound(launch, fmt::format("what is alive after {} at once has {} bytes; a run may take {} "
                                 "(max_memory_bytes)",
                                 least.node, least.bytes, most_bytes_));
}

// A bound that nothing enforces is said to be none.
void Executor::check_workspace_known(const Launch& launch) {
  if (launch.info.workspace_bytes) return;
  std::string note = "max_workspace_size does not bind engine '" + launch.engine +
                     "': it does not tell what scratch memory its functions need";
  auto& notes = explanation_.notes;
  if (std::find(notes.begin(), notes.end(), note) != notes.end()) return;
  log_warning(note);
  notes.push_back(std::move(note));
}

void Executor::annotate(const Decision& decision) {
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

Explanation Executor::explain() const {
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
    if (launch->stand_in == nullptr) continue;
    if (std::string note = launch->stand_in->note(); !note.empty()) {
      copy.notes.push_back(std::move(note));
    }
  }
  return copy;
}

bool Executor::Launch::is_checked() const {
  if (control_flow != nullptr) return control_flow->has_checked_functions();
  return executable != nullptr && (engine != kFallbackEngine || is_rounded);
}

bool Executor::has_checked_functions() const {
  return std::any_of(launches_.begin(), launches_.end(),
                     [](const auto& launch) { return launch->is_checked(); });
}

const Dims* Executor::output_dims(std::size_t output) const {
  const Slot& slot = slots_[outputs_[output].slot];
  return slot.preallocate ? &slot.dims : nullptr;
}

std::size_t Executor::workspace_bytes() const {
  std::size_t bytes = arena_bytes_;
  for (const auto& launch : launches_) bytes += workspace_bytes(*launch);
  return bytes;
}

std::size_t Executor::workspace_bytes(const Launch& launch) {
  if (launch.control_flow != nullptr) return launch.control_flow->workspace_bytes();
  return launch.info.workspace_bytes.value_or(0);
}

}  // namespace xrt
