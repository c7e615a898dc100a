// SPDX-License-Identifier: Apache-2.0
// Engines written in Python: the object that a user registers, as an xrt::Engine.
#include "custom/engine.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/spare_threads.h"
#include "base/work_scope.h"
#include "cache/cache_entry.h"
#include "custom/engine_executable.h"
#include "custom/engine_views.h"
#include "engine/handles.h"
#include "gil.h"
#include "isolation/serve.h"
#include "ops/schema.h"
#include "program/refiner.h"
#include "registry/engine_provider.h"
#include "values/convert.h"
#include "xrt/engine.h"
#include "xrt/error.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Ends the views of one call, however it ends.
class Lent {
 public:
  explicit Lent(const Graph& graph) : source_(std::make_shared<Source>()) {
    source_->graph = &graph;
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { source_->graph = nullptr; }
  const std::shared_ptr<Source>& source() const { return source_; }

 private:
  std::shared_ptr<Source> source_;
};

class PyEngine final : public Engine {
 public:
  // `trained`: qualified names of ops that may be part of training steps; nothing: all of them.
  PyEngine(EngineInfo info, std::vector<std::string> ops,
           std::optional<std::set<std::string>> trained, nb::object object)
      : info_(std::move(info)),
        ops_(std::move(ops)),
        trained_(std::move(trained)),
        asks_whole_graph_(nb::hasattr(object, "supports_all")),
        can_load_(nb::hasattr(object, "load")),
        object_(std::move(object)) {}

  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override { return ops_; }

  Support supports(const SupportQuery& query) const override {
    const Gil gil;
    const Lent lent(graph_of(query.graph));
    return ask(lent.source(), query);
  }

  std::vector<Support> supports_all(const SupportQuery& query) const override {
    const Gil gil;
    const Graph& graph = graph_of(query.graph);
    const Phase phase = query.phase;
    const Lent lent(graph);
    std::vector<Support> answers(graph.node_capacity(), Support::no("the node was removed"));
    const std::vector<NodeId> order = graph.topological_order();
    if (!asks_whole_graph_) {
      for (const NodeId id : order) {
        answers[static_cast<std::size_t>(id.index)] =
            ask(lent.source(), {query.graph, id, query.device, phase});
      }
      return answers;
    }
    guarded("supports_all()", [&] {
      nb::object given =
          object_.get().attr("supports_all")(nb::cast(view_of(lent.source(), query.device, phase)));
      if (!nb::isinstance<nb::list>(given) || nb::len(given) != order.size()) {
        throw Error(ErrorCode::kEngine,
                    fmt::format("engine {} (Python): supports_all() must return a list with an "
                                "answer for each of the graph's {} nodes; it returned a {}",
                                name(), order.size(), nb::type_name(given.type()).c_str()));
      }
      for (std::size_t i = 0; i < order.size(); ++i) {
        answers[static_cast<std::size_t>(order[i].index)] =
            in_phase(answer(given[i], "supports_all"), graph, order[i], phase);
      }
    });
    return answers;
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return make("compile()", function, options,
                [&](nb::handle view) { return object_.get().attr("compile")(view); });
  }

  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override {
    if (!can_load_) return Engine::load(blob, function, options);
    return make("load()", function, options, [&](nb::handle view) {
      // Read-only: the memory is often a mapped file. It lives as long as the view of it.
      nb::object array = to_python(tensor_of(blob), /*read_only=*/true);
      nb::object bytes = nb::steal(PyMemoryView_FromObject(array.ptr()));
      if (!bytes.is_valid()) throw nb::python_error();
      return object_.get().attr("load")(bytes, view);
    });
  }

 private:
  template <typename Step>
  std::invoke_result_t<Step> guarded(const std::string& step, Step&& body) const {
    try {
      return body();
    } catch (nb::python_error& error) {
      throw_engine_error(name(), step, error);
    }
  }

  // The engine's answer, and a no where the op is not for training steps.
  Support in_phase(Support own, const Graph& graph, NodeId id, Phase phase) const {
    if (!own || phase == Phase::kInference || !trained_) return own;
    const Node& node = graph.node(id);
    if (trained_->contains(node.qualified_op())) return own;
    return Support::no(node.op + " runs in inference only");
  }

  Support answer(nb::handle given, const char* method) const {
    if (given.ptr() == Py_True) return Support::yes();
    if (PyUnicode_Check(given.ptr()) != 0) {
      const std::string reason = text_of(given);
      return Support::no(reason.empty() ? "no, and it gave no reason" : reason);
    }
    throw Error(ErrorCode::kEngine,
                fmt::format("engine {} (Python): {}() must return True, or the reason of a no as "
                            "str; it returned {}",
                            name(), method, repr_of(given)));
  }

  Support ask(const std::shared_ptr<Source>& source, const SupportQuery& query) const {
    return guarded("supports()", [&] {
      nb::object given = object_.get().attr("supports")(nb::cast(view_of(source, query)));
      return in_phase(answer(given, "supports"), graph_of(query.graph), query.node, query.phase);
    });
  }

  template <typename Call>
  std::shared_ptr<const Executable> make(const char* method, const Function& function,
                                         const CompileOptions& options, Call&& call) const {
    const Gil gil;
    const std::string step = fmt::format("{} of {}", method, function.name);
    return guarded(step, [&] {
      const Lent lent(graph_of(function.graph));
      FunctionView view;
      static_cast<GraphView&>(view) = view_of(lent.source(), options.device, options.phase);
      view.name = function.name;
      view.num_threads = options.num_threads;
      view.streams = options.streams;
      view.max_batch_size = options.max_batch_size;
      view.max_workspace_bytes = options.max_workspace_bytes;
      view.records_dir = options.records_dir;
      view.compile_options = &options;
      for (const InputOutputAlias& alias : function.aliases) {
        view.aliases.emplace_back(alias.input, alias.output);
      }
      for (const auto& [key, value] : options.engine_options) {
        view.options[text_object(key)] = text_object(value);
      }
      std::vector<Port> outputs = view.outputs;
      for (const SizeRange& range : options.ranges) {
        view.ranges[text_object(range.symbol)] =
            nb::make_tuple(range.least, range.usual, range.most);
      }
      nb::object made = call(nb::cast(std::move(view)));
      return make_executable(name(), method, function.name, std::move(outputs), std::move(made),
                             can_load_, options.num_threads);
    });
  }

  EngineInfo info_;
  std::vector<std::string> ops_;
  std::optional<std::set<std::string>> trained_;
  bool asks_whole_graph_, can_load_;
  Held object_;
};

// The Python side of discovery: names() and load(name) of openxrt.engines.
class PyProvider final : public EngineProvider {
 public:
  PyProvider(nb::object names, nb::object load, nb::object worker)
      : names_(std::move(names)), load_(std::move(load)), worker_(std::move(worker)) {}

  std::vector<std::string> names() const override {
    const Gil gil;
    try {
      return nb::cast<std::vector<std::string>>(names_.get()());
    } catch (nb::python_error& error) {
      throw Error(ErrorCode::kEngine,
                  fmt::format("engines written in Python cannot be listed: {}", error.what()));
    }
  }

  bool load(const std::string& name) const override {
    const Gil gil;
    try {
      return nb::cast<bool>(load_.get()(name));
    } catch (nb::python_error& error) {
      throw_engine_error(name, "it cannot be loaded", error);
    }
  }

  std::vector<std::string> worker_command(const std::string& name) const override {
    const Gil gil;
    try {
      return nb::cast<std::vector<std::string>>(worker_.get()(name));
    } catch (nb::python_error& error) {
      throw_engine_error(name, "it has no worker", error);
    }
  }

 private:
  Held names_, load_, worker_;
};

}  // namespace

void bind_engine(nb::module_& module) {
  bind_engine_views(module);
  module.def(
      "register_engine",
      [](nb::object object, std::string name, std::string version, std::vector<std::string> devices,
         bool dynamic_shapes, std::string location, std::vector<std::string> ops,
         std::optional<std::set<std::string>> trained,
         const std::optional<std::vector<std::string>>& options, bool in_place,
         std::vector<std::string> files, std::map<std::string, std::string> offline_options) {
        EngineInfo info;
        info.offline_options = std::move(offline_options);
        info.name = std::move(name);
        info.version = std::move(version);
        info.location = std::move(location);
        info.devices.clear();
        for (std::string& device : devices) info.devices.push_back({std::move(device)});
        info.checks_options = !options;
        for (const std::string& option : options.value_or(std::vector<std::string>())) {
          info.options.push_back({option, EngineOption::Kind::kText, {}, {}});
        }
        info.shapes = dynamic_shapes ? Shapes::kAny : Shapes::kStatic;
        info.in_place = in_place;
        info.files = std::move(files);
        info.core_version = core_version();
        register_engine(std::make_shared<PyEngine>(std::move(info), std::move(ops),
                                                   std::move(trained), std::move(object)));
      },
      nb::arg("object"), nb::arg("name"), nb::arg("version"), nb::arg("devices"),
      nb::arg("dynamic_shapes"), nb::arg("location"), nb::arg("ops"), nb::arg("trained").none(),
      nb::arg("options").none(), nb::arg("in_place"), nb::arg("files"), nb::arg("offline_options"),
      "`trained` lists the ops that may be part of training steps; None: all of them.");
  module.def("finish_writing", finish_writing, nb::call_guard<ReleasedGil>(),
             "Waits until the disk cache holds what was made so far; needs Python's engines.");
  module.def(
      "end_measuring", [] { Refiner::process().end(); }, nb::call_guard<ReleasedGil>(),
      "Ends measuring beside the runs of programs for good, and waits until it has ended.");
  module.def(
      "time_left",
      []() -> std::optional<double> {
        const RunLimit* limit = WorkScope::time_limit();
        if (limit == nullptr) return std::nullopt;
        return limit->left();
      },
      "Seconds that are left of the limit of the work that this thread does; None: there is none.");
  module.def("require_threads", require_threads, nb::arg("count"), nb::call_guard<ReleasedGil>(),
             "Raises ResourceError unless so many more threads can be started now.");
  module.def("check_time", WorkScope::check_time, "Raises ResourceError where they are over.");
  module.def("end_runs", end_entries, nb::call_guard<ReleasedGil>(),
             "Before the interpreter ends: waits for threads that run Python for C++, and no other "
             "one comes back to Python.");
  module.def(
      "standard_ops",
      [] {
        std::vector<std::string> names;
        for (const OpInfo& op : all_ops("")) names.push_back(op.name);
        return names;
      },
      "Names of the ops of the ONNX standard.");
  module.def(
      "set_engine_provider",
      [](nb::object names, nb::object load, nb::object worker_command) {
        set_engine_provider(std::make_shared<PyProvider>(std::move(names), std::move(load),
                                                         std::move(worker_command)));
      },
      nb::arg("names"), nb::arg("load"), nb::arg("worker_command"),
      "names() lists engines that load(name) imports and registers; load() returns False for a "
      "name it does not know. worker_command(name) is the command that runs the engine for another "
      "process, empty where there is none.");
  module.def(
      "serve_engine",
      [](const std::string& socket, const std::string& engine, const std::string& parent) {
        serve_engine(socket, engine, parent,
                     [](const std::string& name) { return get_engine(name); });
      },
      nb::arg("socket"), nb::arg("engine"), nb::arg("parent"), nb::call_guard<ReleasedGil>(),
      "Runs an engine for the process that started this one, and ends this process.");
}

}  // namespace xrt::python
