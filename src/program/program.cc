// SPDX-License-Identifier: Apache-2.0
#include "xrt/program.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/message.h"
#include "base/nearest.h"
#include "base/work_scope.h"
#include "device/caller_stream.h"
#include "device/threads.h"
#include "exec/executor.h"
#include "exec/native_evaluator.h"
#include "frontends/model_files.h"
#include "frontends/onnx/importer.h"
#include "ir/printer.h"
#include "isolation/names.h"
#include "measure/user_runs.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "placement/estimates.h"
#include "placement/survey.h"
#include "plan/functions.h"
#include "program/bool_inputs.h"
#include "program/given_outputs.h"
#include "program/input_sizes.h"
#include "program/int8_program.h"
#include "program/load_checks.h"
#include "program/option_checks.h"
#include "program/plan_cache.h"
#include "program/request_queue.h"
#include "program/served_plan.h"
#include "program/sized_plans.h"
#include "program/split_program.h"
#include "registry/engine_names.h"
#include "registry/engine_options.h"
#include "registry/isolation_choice.h"
#include "xrt/op.h"

namespace xrt {
namespace {

// The engine whose options these are, or null where an engine that it can do without is not
// installed: one list of options serves machines with different engines.
std::shared_ptr<const Engine> engine_of_options(const std::string& name,
                                                const ProgramOptions& options) {
  try {
    return get_engine(name);
  } catch (const Error& error) {
    const std::vector<std::string> all = engine_names();
    const bool exists = std::find(all.begin(), all.end(), base_engine(name)) != all.end();
    const auto& engines = options.engines;
    const bool is_named = std::find(engines.begin(), engines.end(), name) != engines.end();
    if (!exists || is_named) throw;
    log_info("engine_options of '" + name + "' are not looked at: " + error.what());
    return nullptr;
  }
}

// Options of engines that do not exist, and keys that their engines do not know.
void check_options_of_engines(const ProgramOptions& options) {
  for (const auto& [name, own] : options.engine_options) {
    const std::shared_ptr<const Engine> engine = engine_of_options(name, options);
    if (engine == nullptr) continue;
    check_engine_options(*engine, own);
  }
}

// The options that a program works with.
ProgramOptions settled(const ProgramOptions& given) {
  warn_without_effect(given);
  return without_missing_engines(with_isolation(resolve_options(given)));
}

// A program's graph after passes; read from the cache when it is first asked for.
class ProgramGraph {
 public:
  explicit ProgramGraph(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}
  explicit ProgramGraph(std::shared_ptr<const PlanCache> cache) : cache_(std::move(cache)) {}

  std::shared_ptr<const Graph> get() {
    const std::lock_guard lock(mutex_);
    if (graph_ == nullptr) graph_ = std::make_shared<const Graph>(cache_->graph());
    return graph_;
  }

 private:
  ForkMutex mutex_;
  std::shared_ptr<const Graph> graph_;
  std::shared_ptr<const PlanCache> cache_;
};

PassOptions pass_options(const ProgramOptions& given) {
  PassOptions options;
  options.evaluate = native_evaluator(given.max_memory_bytes);
  options.dump_dir = given.dump_dir;
  return options;
}

std::vector<InputType> input_types(const ProgramPorts& ports) {
  std::vector<InputType> inputs;
  for (const Port& port : ports.inputs) inputs.push_back({port.name, port.type});
  return inputs;
}

ImportBounds import_bounds(const ProgramOptions& options) {
  return {.max_nodes = options.max_nodes, .max_memory_bytes = options.max_memory_bytes};
}

// Bounds the time that a program takes to load.
class LoadScope {
 public:
  explicit LoadScope(const ProgramOptions& options)
      : limit_(options.deadline_s), scope_(options.deadline_s > 0 ? &limit_ : nullptr, "loading") {}

 private:
  RunLimit limit_;
  WorkScope scope_;
};

class ProgramImpl final : public Program {
 public:
  // `cache`: where the program is kept in the disk cache, which imported it with `files`.
  // `why_not_kept`: for explain(), where `cache` is null.
  ProgramImpl(Graph graph, ProgramOptions options, std::unique_ptr<PlanCache> cache = nullptr,
              const std::vector<ExternalFile>& files = {}, std::string why_not_kept = {})
      : shared_options_(
            std::make_shared<const ProgramOptions>(refine_inputs(graph, std::move(options)))),
        cache_(std::move(cache)),
        why_not_kept_(std::move(why_not_kept)) {
    for (const ExternalFile& external : files) mapped_.push_back(external.file);
    infer_shapes(graph);
    const Graph imported = options_.node_engines.empty() ? Graph() : Graph(graph);
    run_passes(graph, pass_options(options_));
    for (const ValueId v : graph.inputs()) {
      const auto defaults = graph.input_defaults().find(v);
      const bool has_default = defaults != graph.input_defaults().end();
      ports_.inputs.push_back({graph.value(v).name, graph.type(v), has_default});
      ports_.defaults.push_back(has_default ? defaults->second : Tensor());
    }
    for (const ValueId v : graph.outputs()) {
      ports_.outputs.push_back({graph.value(v).name, graph.type(v), false});
    }
    const auto whole = std::make_shared<const Graph>(std::move(graph));
    graph_ = std::make_shared<ProgramGraph>(whole);
    is_static_ = has_static_inputs();
    check_options(*whole, imported);
    check_runnable(*whole, options_, [&](const std::vector<std::optional<Type>>& types) {
      ProgramOptions quiet = options_;
      quiet.dump_dir.clear();
      return specialised(*whole, types, quiet);
    });
    if (cache_ != nullptr) {
      why_not_kept_ = PlanCache::why_not(*whole);
      if (!why_not_kept_.empty()) cache_.reset();
    }
    std::optional<Plan> draft;
    if (is_static_ && cache_ != nullptr) draft.emplace();
    if (is_static_) {
      static_plan_ = ServedPlan::build(source(), {}, draft ? &*draft : nullptr);
      tell_leftovers_once(*static_plan_);
    } else {
      sized_plans_ = std::make_unique<SizedPlans>(source(), ports_, cache_);
    }
    if (cache_ != nullptr) cache_->keep(whole, ports_, files, draft ? &*draft : nullptr);
    if (sized_plans_ != nullptr) sized_plans_->prepare();
  }

  // From what the disk cache holds.
  ProgramImpl(std::unique_ptr<PlanCache> cache, ProgramOptions options)
      : shared_options_(std::make_shared<const ProgramOptions>(
            with_ranges_of(input_types(cache->ports()), std::move(options)))),
        ports_(cache->ports()),
        cache_(std::move(cache)),
        graph_(std::make_shared<ProgramGraph>(cache_)) {
    // Names of engines and aliases were right when the program was kept, and are part of its key.
    is_static_ = has_static_inputs();
    if (options_.device != "cpu") check_engines(options_);  // what is there may have changed
    if (!is_static_) {
      sized_plans_ = std::make_unique<SizedPlans>(source(), ports_, cache_);
      sized_plans_->prepare();
      return;
    }
    std::optional<Plan> draft = cache_->take_static_draft();
    if (!draft) throw Error(ErrorCode::kInvalidModel, "the plan of a static program is missing");
    static_plan_ = ServedPlan::of(*draft, source());
    tell_leftovers_once(*static_plan_);
  }

  // What the disk cache shall hold is there when a program is gone, and a check of its results has
  // ended. A measurement under way ends by itself: nobody waits for an engine that compiles for it.
  ~ProgramImpl() override {
    requests_.reset();
    refining_->stop();
    if (cache_ != nullptr || keeps_executables()) finish_writing();
  }

  const std::vector<Port>& inputs() const override { return ports_.inputs; }
  const std::vector<Port>& outputs() const override { return ports_.outputs; }

  using Program::run;
  void run(std::span<const Data> inputs, std::vector<Data>& outputs,
           const RunOptions& run_options) override {
    check_counts(inputs, outputs);
    outputs.resize(ports_.outputs.size());
    std::vector<Data> completed;  // only where something else stands in for an input
    const auto put = [&](std::size_t i, Data data) {
      if (completed.empty()) completed.assign(inputs.begin(), inputs.end());
      completed[i] = std::move(data);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_none()) {
        if (ports_.inputs[i].has_default) put(i, ports_.defaults[i]);
      } else if (std::optional<Data> plain = with_plain_bools(inputs[i])) {
        put(i, *std::move(plain));
      }
    }
    if (!completed.empty()) inputs = completed;
    const bool device_results = check_inputs(inputs, run_options.results);
    const std::vector<Data> given = take_shared_outputs(inputs, outputs);
    const UserRun counted;
    const double seconds = seconds_of(run_options);
    if (seconds <= 0) {
      run_checked(inputs, outputs, device_results);
    } else {
      const RunLimit limit(seconds);
      const WorkScope scope(&limit, "the run");
      run_checked(inputs, outputs, device_results);
    }
    if (!given.empty()) write_given(given, outputs);
  }

  Request submit(std::vector<Data> inputs, const RunOptions& run_options, std::vector<Data> outputs,
                 std::function<void(const Request&)> done) override {
    check_counts(inputs, outputs);
    return requests_->add(std::move(inputs), std::move(outputs), run_options, std::move(done));
  }

  int streams() const override { return share_.streams; }

  Explanation explain() override {
    Explanation explanation = explain_plan();
    if (options_.streams > 0) {
      explanation.notes.push_back("streams is " + std::to_string(options_.streams) +
                                  ": each run has " + std::to_string(share_.threads) + " of " +
                                  std::to_string(granted_) + " threads");
    }
    if (options_.num_threads > granted_) {
      explanation.notes.push_back("num_threads is " + std::to_string(options_.num_threads) +
                                  ": the process's budget of " + std::to_string(granted_) +
                                  " is what it gets");
    }
    if (!why_not_kept_.empty()) {
      explanation.notes.push_back("the plan is not kept in the disk cache: " + why_not_kept_);
    }
    return explanation;
  }

  void enable_profile(bool on) override { profiler_.enable(on); }
  std::vector<LaunchEvent> profile() const override { return profiler_.events(); }
  std::vector<LaunchEvent> take_profile() override { return profiler_.take(); }
  std::string graph_text() const override { return print(*graph_->get()); }
  std::shared_ptr<const Graph> graph() const { return graph_->get(); }

 private:
  void check_counts(std::span<const Data> inputs, const std::vector<Data>& outputs) const {
    if (inputs.size() != ports_.inputs.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the program takes " + std::to_string(ports_.inputs.size()) + " inputs, " +
                      std::to_string(inputs.size()) + " were given");
    }
    if (!outputs.empty() && outputs.size() != ports_.outputs.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the program has " + std::to_string(ports_.outputs.size()) +
                      " outputs, room for " + std::to_string(outputs.size()) + " was given");
    }
  }

  // Takes the memory out of `outputs` that is also an input's, and gives it back by output: a run
  // would read what it wrote. Aliases are for runs to write. Empty where there is none.
  std::vector<Data> take_shared_outputs(std::span<const Data> inputs,
                                        std::vector<Data>& outputs) const {
    std::vector<Data> taken;
    for (const std::size_t i : outputs_over_inputs(inputs, outputs, ports_.outputs)) {
      const auto is_this = [&](const auto& alias) {
        return alias.second == ports_.outputs[i].name;
      };
      if (std::any_of(options_.aliases.begin(), options_.aliases.end(), is_this)) continue;
      taken.resize(outputs.size());
      taken[i] = std::exchange(outputs[i], Data());
    }
    return taken;
  }

  // 0: as long as it takes.
  double seconds_of(const RunOptions& options) const {
    if (!(options.timeout_s >= 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the timeout of a run is " + std::to_string(options.timeout_s) + " s");
    }
    return options.timeout_s > 0 ? options.timeout_s : options_.deadline_s;
  }

  void run_checked(std::span<const Data> inputs, std::vector<Data>& outputs, bool device_results) {
    run_plan(inputs, outputs, device_results);
    if (!mapped_.empty()) release_pages_once();
  }

  void run_plan(std::span<const Data> inputs, std::vector<Data>& outputs, bool device_results) {
    if (is_static_) {
      static_plan_->run(inputs, outputs, profiler_, device_results);
      return;
    }
    if (const std::optional<PaddedRun> padded = sized_plans_->padded(inputs)) {
      std::vector<Data> results(outputs.size());
      const std::shared_ptr<ServedPlan> plan = sized_plans_->plan_for(padded->inputs());
      tell_leftovers_once(*plan);
      plan->run(padded->inputs(), results, profiler_, device_results);
      padded->deliver(results, outputs, ports_.outputs);
      return;
    }
    const std::shared_ptr<ServedPlan> plan = sized_plans_->plan_for(inputs);
    tell_leftovers_once(*plan);
    plan->run(inputs, outputs, profiler_, device_results);
  }

  Explanation explain_plan() {
    if (is_static_) return static_plan_->explain();
    if (const std::shared_ptr<ServedPlan> last = sized_plans_->last()) return last->explain();
    return ServedPlan::build(source(), {})->explain();
  }

  // For the shapes that the graph declares.
  PlanSource source() const {
    PlanSource source{[graph = graph_] { return graph->get(); }, shared_options_, refining_};
    if (cache_ != nullptr && is_static_) source.forget = [cache = cache_] { cache->forget(); };
    return source;
  }

  // What can be known before the shapes are: a program with dynamic inputs is planned at its first
  // run, and a name that is wrong must not wait until then.
  void check_options(const Graph& graph, const Graph& imported) const {
    check_engines(options_);
    check_options_of_engines(options_);
    // Passes make nodes whose names explanations show; those of a training graph are the trainer's.
    if (!options_.training) {
      ProgramOptions unknown;
      for (const auto& [node, name] : options_.node_engines) {
        if (!graph.find_node(node)) unknown.node_engines.emplace(node, name);
      }
      check_node_names(imported, unknown);
    }
    const auto require = [](const std::vector<Port>& ports, const std::string& name,
                            const char* kind) {
      for (const Port& port : ports) {
        if (port.name == name) return;
      }
      throw Error(ErrorCode::kInvalidArgument,
                  std::string("aliases: the graph has no ") + kind + " '" + name + "'");
    };
    for (const auto& [input, output] : options_.aliases) {
      require(ports_.inputs, input, "input");
      require(ports_.outputs, output, "output");
    }
  }

  // Whether outputs that the caller brought no memory for are to lie on the device.
  bool check_inputs(std::span<const Data> inputs, Results results) const {
    // Symbols are few: a list beats a map.
    std::vector<std::pair<const std::string*, std::int64_t>> symbols;
    const std::optional<Device> own = device_of(options_.device);
    bool on_device = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_input(ports_.inputs[i], inputs[i], symbols);
      if (!inputs[i].is_tensor() || inputs[i].tensor().on_host()) continue;
      on_device = true;
      const Device found = inputs[i].tensor().device();
      if (own != found) {
        throw Error(ErrorCode::kInvalidArgument,
                    "input '" + ports_.inputs[i].name +
                        "': expected all tensors to be on the same device, but it is on " +
                        to_string(found) + " and the program on " + options_.device +
                        ": copy it to the CPU, or load the program with device=\"" +
                        to_string(found) + "\"");
      }
    }
    if (results == Results::kDevice && (!own || own->is_host())) {
      throw Error(ErrorCode::kInvalidArgument,
                  "results on a device were asked for, but the program's device is '" +
                      options_.device + "'");
    }
    return results == Results::kDevice || (results == Results::kLikeInputs && on_device);
  }

  // Why the value is none of this type. Symbols stand for any size: those of a sequence's elements
  // need not agree.
  static std::optional<std::string> misfit(const Type& type, const Data& data) {
    if (type.kind == Type::Kind::kSequence) {
      if (!data.is_sequence()) return "a sequence is wanted, a tensor was given";
      if (type.element == nullptr) return std::nullopt;
      for (const Data& item : data.items()) {
        if (auto wrong = misfit(*type.element, item)) return "in the sequence, " + *wrong;
      }
      return std::nullopt;
    }
    if (!type.is_tensor()) return std::nullopt;
    if (!data.is_tensor()) return "a tensor is wanted, a sequence was given";
    const Tensor& tensor = data.tensor();
    if (tensor.dtype() != type.dtype) {
      return "a tensor of dtype " + std::string(to_string(tensor.dtype())) + " was given";
    }
    if (!type.shape) return std::nullopt;
    bool fits = tensor.rank() == type.shape->size();
    for (std::size_t d = 0; fits && d < tensor.rank(); ++d) {
      const Dim& dim = (*type.shape)[d];
      fits = !dim.is_known() || dim.value() == tensor.dims()[d];
    }
    if (fits) return std::nullopt;
    return "a tensor of shape " + to_string(tensor.dims()) + " was given";
  }

  static void check_input(const Port& port, const Data& data,
                          std::vector<std::pair<const std::string*, std::int64_t>>& symbols) {
    const auto fail = [&](const std::string& problem) {
      throw Error(ErrorCode::kInvalidArgument,
                  "input '" + port.name + "' (" + to_string(port.type) + "): " + problem);
    };
    const Type* type = &port.type;
    if (type->kind == Type::Kind::kOptional) {
      if (data.is_none()) return;
      type = type->element.get();
    }
    if (data.is_none()) fail("nothing was given for it");
    if (const auto wrong = misfit(*type, data)) fail(*wrong);
    if (!type->is_tensor() || !type->shape) return;
    const Tensor& tensor = data.tensor();
    const auto given = [&] {
      return "a tensor of shape " + to_string(tensor.dims()) + " was given";
    };
    for (std::size_t d = 0; d < tensor.rank(); ++d) {
      const Dim& dim = (*type->shape)[d];
      const std::int64_t size = tensor.dims()[d];
      if (!dim.is_symbol()) continue;
      const auto bound = std::find_if(symbols.begin(), symbols.end(),
                                      [&](const auto& s) { return *s.first == dim.symbol(); });
      if (bound == symbols.end()) {
        symbols.emplace_back(&dim.symbol(), size);
      } else if (bound->second != size) {
        fail(given() + ", but '" + dim.symbol() + "' is already " + std::to_string(bound->second));
      }
    }
  }

  bool keeps_executables() const {
    return !(options_.cache_dir ? *options_.cache_dir : default_cache_dir()).empty();
  }

  // Of the first plan: those for other sizes have the same engines.
  void tell_leftovers_once(const ServedPlan& plan) {
    if (told_leftovers_.load(std::memory_order_relaxed) || told_leftovers_.exchange(true)) return;
    tell_leftovers(plan.explain(), options_);
  }

  // Engines that pack weights have done so when a run has ended: the file's pages are not held
  // beside them. Those that read them where they lie get them from the file again.
  void release_pages_once() {
    if (released_.load(std::memory_order_relaxed) || released_.exchange(true)) return;
    for (const auto& file : mapped_) file->release_pages();
  }

  bool has_static_inputs() const {
    return std::all_of(ports_.inputs.begin(), ports_.inputs.end(), [](const Port& port) {
      return !port.type.is_tensor() || port.type.is_static();
    });
  }

  std::shared_ptr<const ProgramOptions> shared_options_;
  const ProgramOptions& options_ = *shared_options_;
  const int granted_ = granted_threads(options_.num_threads);
  const ThreadShare share_ = thread_share(options_.num_threads, options_.streams);
  ProgramPorts ports_;
  bool is_static_ = true;
  std::atomic<bool> told_leftovers_{false};
  std::vector<std::shared_ptr<const MappedFile>> mapped_;  // where constants lie
  std::atomic<bool> released_{false};
  std::shared_ptr<PlanCache> cache_;  // null: the program is not kept
  std::shared_ptr<ProgramGraph> graph_;
  std::shared_ptr<Refining> refining_ = std::make_shared<Refining>();
  std::string why_not_kept_;  // empty where it is kept
  std::shared_ptr<ServedPlan> static_plan_;
  std::unique_ptr<SizedPlans> sized_plans_;  // null where all sizes are declared
  Profiler profiler_;
  std::unique_ptr<RequestQueue> requests_ = std::make_unique<RequestQueue>(
      share_.streams, static_cast<std::size_t>(options_.max_queue),
      [this](std::span<const Data> inputs, std::vector<Data>& outputs,
             const RunOptions& run_options) {
        const std::vector<Data> given = outputs;
        run(inputs, outputs, run_options);
        write_given(given, outputs);
      });
};

// The program as the disk cache holds it. Null: it is to be built, and kept in `cache` unless that
// is null too. `open` opens the cache.
template <typename Open>
std::shared_ptr<Program> from_cache(std::unique_ptr<PlanCache>& cache,
                                    const ProgramOptions& options, Open&& open) {
  cache = open();
  if (cache == nullptr || !cache->find()) return nullptr;
  try {
    return std::make_shared<ProgramImpl>(std::move(cache), options);
  } catch (const Error& error) {
    // What the caller did, or the machine lacks, is no fault of the entry.
    const bool fails = dynamic_cast<const CompileFailure*>(&error) != nullptr && options.fallback;
    if (error.code() == ErrorCode::kInvalidArgument) throw;
    if (error.code() == ErrorCode::kResource && !fails) throw;
    log_warning(std::string("plan cache: ") + error.what() + ": the program is built anew");
  }
  cache = open();  // what could not be used is replaced
  return nullptr;
}

// Of a program without use_int8.
std::shared_ptr<const Graph> graph_of(const Program& program) {
  return dynamic_cast<const ProgramImpl&>(program).graph();
}

}  // namespace

Program::~Program() = default;

std::shared_ptr<Program> Program::compile(Graph graph, const ProgramOptions& options) {
  if (!options.devices.empty()) {
    const auto on_one = [&](const ProgramOptions& one) { return compile(Graph(graph), one); };
    return make_split_program(options, on_one, graph_of);
  }
  load_op_path();
  ProgramOptions own = settled(options);
  const LoadScope scope(own);
  if (own.use_int8) return make_int8_program(std::move(graph), own);
  return std::make_shared<ProgramImpl>(std::move(graph), std::move(own));
}

std::shared_ptr<Program> Program::load(const std::filesystem::path& path,
                                       const ProgramOptions& given) {
  if (!given.devices.empty()) {
    const auto on_one = [&](const ProgramOptions& one) { return load(path, one); };
    return make_split_program(given, on_one, graph_of);
  }
  load_op_path();
  const ProgramOptions options = settled(given);
  const LoadScope scope(options);
  if (options.use_int8) {
    std::vector<ExternalFile> files;
    return make_int8_program(import_model(path, files, import_bounds(options)), options);
  }
  std::unique_ptr<PlanCache> cache;
  std::string why_not;
  const auto open = [&] { return PlanCache::open(model_file(path), {}, options, &why_not); };
  if (auto program = from_cache(cache, options, open)) return program;
  std::vector<ExternalFile> files;
  Graph graph = import_model(path, files, import_bounds(options));
  return std::make_shared<ProgramImpl>(std::move(graph), options, std::move(cache), files,
                                       std::move(why_not));
}

std::shared_ptr<Program> Program::load_bytes(std::string_view onnx_bytes,
                                             const ProgramOptions& given) {
  if (!given.devices.empty()) {
    const auto on_one = [&](const ProgramOptions& one) { return load_bytes(onnx_bytes, one); };
    return make_split_program(given, on_one, graph_of);
  }
  load_op_path();
  const ProgramOptions options = settled(given);
  const LoadScope scope(options);
  if (options.use_int8) {
    return make_int8_program(import_onnx_bytes(onnx_bytes, import_bounds(options)), options);
  }
  std::unique_ptr<PlanCache> cache;
  std::string why_not;
  const auto open = [&] { return PlanCache::open({}, onnx_bytes, options, &why_not); };
  if (auto program = from_cache(cache, options, open)) return program;
  return std::make_shared<ProgramImpl>(import_onnx_bytes(onnx_bytes, import_bounds(options)),
                                       options, std::move(cache), std::vector<ExternalFile>{},
                                       std::move(why_not));
}

std::vector<Data> Program::run(const std::map<std::string, Data>& named) {
  const std::vector<Port>& ports = inputs();
  std::vector<Data> ordered(ports.size());
  std::size_t used = 0;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto it = named.find(ports[i].name);
    if (it == named.end()) continue;
    ordered[i] = it->second;
    ++used;
  }
  if (used != named.size()) {
    std::string known;
    for (const Port& port : ports) known += (known.empty() ? "" : ", ") + port.name;
    for (const auto& entry : named) {
      const std::string& name = entry.first;
      const bool is_port =
          std::any_of(ports.begin(), ports.end(), [&](const Port& p) { return p.name == name; });
      if (is_port) continue;
      throw Error(ErrorCode::kInvalidArgument, "there is no input '" + shortened(name) +
                                                   "'; the inputs are: " + shortened(known));
    }
  }
  std::vector<Data> results;
  run(ordered, results);
  return results;
}

}  // namespace xrt
