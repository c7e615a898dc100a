// SPDX-License-Identifier: Apache-2.0
#include "xrt/program.h"

#include <algorithm>
#include <future>
#include <list>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "frontends/onnx/importer.h"
#include "ir/printer.h"
#include "ir/shape_inference.h"
#include "passes/pass_manager.h"
#include "runtime/auto.h"
#include "runtime/control_flow.h"
#include "runtime/evaluate.h"
#include "runtime/plan.h"
#include "runtime/precision.h"
#include "runtime/served_plan.h"

namespace xrt {
namespace {

// The concrete types of all inputs of one run, as a key.
using ShapeKey = std::vector<std::int64_t>;

class ProgramImpl final : public Program {
 public:
  ProgramImpl(Graph graph, ProgramOptions options)
      : graph_(std::move(graph)), options_(std::move(options)) {
    if (options_.max_specializations < 1) {
      throw Error(ErrorCode::kInvalidArgument, "max_specializations must be at least 1");
    }
    infer_shapes(graph_);
    run_passes(graph_, pass_options());
    for (const ValueId v : graph_.inputs()) {
      inputs_.push_back(
          {graph_.value(v).name, graph_.type(v), graph_.input_defaults().contains(v)});
      const Type& type = inputs_.back().type;
      is_static_ = is_static_ && (!type.is_tensor() || type.is_static());
    }
    for (const ValueId v : graph_.outputs()) {
      outputs_.push_back({graph_.value(v).name, graph_.type(v), false});
    }
    check_options();
    if (is_static_) static_plan_ = serve(own_graph(), {});
  }

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  void run(std::span<const Data> inputs, std::vector<Data>& outputs) override {
    if (inputs.size() != inputs_.size()) {
      throw Error(ErrorCode::kInvalidArgument, "the program takes " +
                                                   std::to_string(inputs_.size()) + " inputs, " +
                                                   std::to_string(inputs.size()) + " were given");
    }
    if (!outputs.empty() && outputs.size() != outputs_.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the program has " + std::to_string(outputs_.size()) + " outputs, room for " +
                      std::to_string(outputs.size()) + " was given");
    }
    outputs.resize(outputs_.size());
    std::vector<Data> completed;  // only where a default stands in
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_none() || !inputs_[i].has_default) continue;
      if (completed.empty()) completed.assign(inputs.begin(), inputs.end());
      completed[i] = graph_.input_defaults().at(graph_.inputs()[i]);
    }
    if (!completed.empty()) inputs = completed;
    check_inputs(inputs);
    if (is_static_) {
      static_plan_->run(inputs, outputs, profiler_);
      return;
    }
    const std::shared_ptr<ServedPlan> plan = plan_for(inputs);
    plan->run(inputs, outputs, profiler_);
  }

  Explanation explain() override {
    if (is_static_) return static_plan_->explain();
    {
      const std::lock_guard lock(plans_mutex_);
      if (last_ != nullptr) return last_->explain();
    }
    return serve(own_graph(), {})->explain();
  }

  void enable_profile(bool on) override { profiler_.enable(on); }
  std::vector<LaunchEvent> profile() const override { return profiler_.events(); }
  std::string graph_text() const override { return print(graph_); }

 private:
  PassOptions pass_options() const {
    PassOptions options;
    options.evaluate = native_evaluator();
    options.dump_dir = options_.dump_dir;
    return options;
  }

  // What can be known before the shapes are: a program with dynamic inputs is planned at its first
  // run, and a name that is wrong must not wait until then.
  void check_options() const {
    if (options_.engines.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "no engine is named; {\"auto\"} is the default");
    }
    auto_mode(options_);
    check_precision(options_);
    for (std::size_t i = 0; i < options_.engines.size(); ++i) {
      if (i == 0 && options_.engines[i] == "auto") continue;
      get_engine(options_.engines[i]);
    }
    for (const auto& [node, name] : options_.node_engines) {
      if (name != kRuntimeEngine) get_engine(name);
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
      require(inputs_, input, "input");
      require(outputs_, output, "output");
    }
  }

  void check_inputs(std::span<const Data> inputs) const {
    // Symbols are few: a list beats a map.
    std::vector<std::pair<const std::string*, std::int64_t>> symbols;
    for (std::size_t i = 0; i < inputs.size(); ++i) check_input(inputs_[i], inputs[i], symbols);
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
    if (type->kind == Type::Kind::kSequence) {
      if (!data.is_sequence()) fail("a sequence is wanted, a tensor was given");
      return;
    }
    if (!data.is_tensor()) fail("a tensor is wanted, a sequence was given");
    const Tensor& tensor = data.tensor();
    if (tensor.dtype() != type->dtype) {
      fail("a tensor of dtype " + std::string(to_string(tensor.dtype())) + " was given");
    }
    if (!type->shape) return;
    const auto given = [&] {
      return "a tensor of shape " + to_string(tensor.dims()) + " was given";
    };
    if (tensor.rank() != type->shape->size()) fail(given());
    for (std::size_t d = 0; d < tensor.rank(); ++d) {
      const Dim& dim = (*type->shape)[d];
      const std::int64_t size = tensor.dims()[d];
      if (dim.is_known() && dim.value() != size) fail(given());
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

  static ShapeKey key_of(std::span<const Data> inputs) {
    ShapeKey key;
    for (const Data& data : inputs) {
      if (!data.is_tensor()) {
        key.push_back(-1);
        continue;
      }
      const Dims& dims = data.tensor().dims();
      key.push_back(static_cast<std::int64_t>(dims.size()));
      key.insert(key.end(), dims.begin(), dims.end());
    }
    return key;
  }

  // The plan for these shapes; concurrent first runs of one shape build it once. The plans used
  // longest ago make room.
  std::shared_ptr<ServedPlan> plan_for(std::span<const Data> inputs) {
    const ShapeKey key = key_of(inputs);
    std::promise<std::shared_ptr<ServedPlan>> promise;
    {
      std::unique_lock lock(plans_mutex_);
      const auto it = std::find_if(plans_.begin(), plans_.end(),
                                   [&](const Entry& entry) { return entry.key == key; });
      if (it != plans_.end()) {
        plans_.splice(plans_.begin(), plans_, it);
        const auto future = it->plan;
        lock.unlock();
        return remember(future.get());
      }
      plans_.push_front({key, promise.get_future().share()});
      if (plans_.size() > static_cast<std::size_t>(options_.max_specializations)) {
        plans_.pop_back();
      }
    }
    try {
      std::shared_ptr<ServedPlan> plan = specialise(inputs);
      promise.set_value(plan);
      return remember(plan);
    } catch (...) {  // handed on to whoever waits for this plan, and rethrown here
      promise.set_exception(std::current_exception());
      const std::lock_guard lock(plans_mutex_);
      plans_.remove_if([&](const Entry& entry) { return entry.key == key; });
      throw;
    }
  }

  std::shared_ptr<ServedPlan> remember(std::shared_ptr<ServedPlan> plan) {
    const std::lock_guard lock(plans_mutex_);
    last_ = plan;
    return plan;
  }

  // The program's graph lives as long as every plan of it.
  std::shared_ptr<const Graph> own_graph() const {
    return {std::shared_ptr<const void>(), &graph_};
  }

  std::shared_ptr<ServedPlan> serve(std::shared_ptr<const Graph> graph,
                                    std::span<const Data> inputs) {
    return ServedPlan::build(std::move(graph), options_, inputs, refiner_);
  }

  std::shared_ptr<ServedPlan> specialise(std::span<const Data> inputs) {
    auto specialised = std::make_shared<Graph>(graph_);
    Graph& graph = *specialised;
    std::string shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_tensor() || !inputs_[i].type.is_tensor()) continue;
      const Tensor& tensor = inputs[i].tensor();
      graph.set_type(graph.inputs()[i], Type::tensor(tensor.dtype(), tensor.dims()));
      shapes += " " + inputs_[i].name + to_string(tensor.dims());
    }
    log_debug("specialising '" + graph_.name() + "' for" + shapes);
    infer_shapes(graph, /*reset=*/true);
    run_passes(graph, pass_options());
    return serve(std::move(specialised), inputs);
  }

  struct Entry {
    ShapeKey key;
    std::shared_future<std::shared_ptr<ServedPlan>> plan;
  };

  Graph graph_;
  ProgramOptions options_;
  std::vector<Port> inputs_, outputs_;
  bool is_static_ = true;
  std::shared_ptr<ServedPlan> static_plan_;
  Profiler profiler_;

  std::mutex plans_mutex_;
  std::list<Entry> plans_;  // most recently used first
  std::shared_ptr<ServedPlan> last_;
  Refiner refiner_;  // last: its thread ends before what it reads goes
};

}  // namespace

Program::~Program() = default;

std::shared_ptr<Program> Program::compile(Graph graph, const ProgramOptions& options) {
  return std::make_shared<ProgramImpl>(std::move(graph), options);
}

std::shared_ptr<Program> Program::load(const std::filesystem::path& path,
                                       const ProgramOptions& options) {
  return compile(import_onnx(path), options);
}

std::shared_ptr<Program> Program::load_bytes(std::string_view onnx_bytes,
                                             const ProgramOptions& options) {
  return compile(import_onnx_bytes(onnx_bytes), options);
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
    for (const auto& [name, data] : named) {
      const bool is_port =
          std::any_of(ports.begin(), ports.end(), [&](const Port& p) { return p.name == name; });
      if (is_port) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "there is no input '" + name + "'; the inputs are: " + known);
    }
  }
  std::vector<Data> results;
  run(ordered, results);
  return results;
}

}  // namespace xrt
