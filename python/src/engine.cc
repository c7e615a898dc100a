// SPDX-License-Identifier: Apache-2.0
// Engines written in Python: the object that a user registers, as an xrt::Engine.
#include "engine.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache/cache_entry.h"
#include "convert.h"
#include "engine_executable.h"
#include "engine_views.h"
#include "ops/schema.h"
#include "registry/engine_provider.h"
#include "xrt/engine.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// What users say about an engine beside the object itself.
struct Description {
  std::string name, version, location;
  std::vector<std::string> devices, ops;
  bool dynamic_shapes = false;
  std::map<std::string, OpTraits> traits;  // of ops where they differ from `otherwise`
  OpTraits otherwise;
  std::optional<std::vector<std::string>> option_names;
  bool in_place = false;
  std::vector<std::string> files;
};

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

class PyEngine final : public Engine, public EngineFiles {
 public:
  PyEngine(Description description, nb::object object)
      : about_(std::move(description)),
        asks_whole_graph_(nb::hasattr(object, "supports_all")),
        can_load_(nb::hasattr(object, "load")),
        can_refit_(nb::hasattr(object, "refit")),
        object_(std::move(object)) {}

  std::string name() const override { return about_.name; }
  std::string version() const override { return about_.version; }
  std::vector<std::string> devices() const override { return about_.devices; }
  bool dynamic_shapes() const override { return about_.dynamic_shapes; }
  std::string location() const override { return about_.location; }
  std::vector<std::string> ops() const override { return about_.ops; }
  std::optional<std::vector<std::string>> option_names() const override {
    return about_.option_names;
  }
  bool in_place() const override { return about_.in_place; }
  std::vector<std::filesystem::path> files() const override {
    return {about_.files.begin(), about_.files.end()};
  }
  OpTraits traits(const std::string& op) const override {
    const auto it = about_.traits.find(op);
    return it == about_.traits.end() ? about_.otherwise : it->second;
  }

  Support supports(const SupportQuery& query) const override {
    const Gil gil;
    const Lent lent(query.graph);
    return ask(lent.source(), query);
  }

  std::vector<Support> supports_all(const Graph& graph, const std::string& device,
                                    Phase phase) const override {
    const Gil gil;
    const Lent lent(graph);
    std::vector<Support> answers(graph.node_capacity(), Support::no("the node was removed"));
    const std::vector<NodeId> order = graph.topological_order();
    if (!asks_whole_graph_) {
      for (const NodeId id : order) {
        answers[static_cast<std::size_t>(id.index)] =
            ask(lent.source(), {graph, id, device, phase, {}});
      }
      return answers;
    }
    guarded("supports_all()", [&] {
      nb::object given =
          object_.get().attr("supports_all")(nb::cast(view_of(lent.source(), device, phase)));
      if (!nb::isinstance<nb::list>(given) || nb::len(given) != order.size()) {
        throw Error(ErrorCode::kEngine,
                    fmt::format("engine {} (Python): supports_all() must return a list with an "
                                "answer for each of the graph's {} nodes; it returned a {}",
                                about_.name, order.size(), nb::type_name(given.type()).c_str()));
      }
      for (std::size_t i = 0; i < order.size(); ++i) {
        const std::string& op = graph.node(order[i]).op;
        answers[static_cast<std::size_t>(order[i].index)] =
            untrained(graph, order[i], phase) ? not_trained(op) : answer(given[i], "supports_all");
      }
    });
    return answers;
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return make("compile()", function, options,
                [&](nb::handle view) { return object_.get().attr("compile")(view); });
  }

  std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                         const CompileOptions& options) const override {
    if (!can_load_) return Engine::load(blob, function, options);
    return make("load()", function, options, [&](nb::handle view) {
      // Read-only: the memory is often a mapped file. It lives as long as the view of it.
      nb::object array = to_python(blob, /*read_only=*/true);
      nb::object bytes = nb::steal(PyMemoryView_FromObject(array.ptr()));
      if (!bytes.is_valid()) throw nb::python_error();
      return object_.get().attr("load")(bytes, view);
    });
  }

  std::shared_ptr<const Executable> refit(const Executable& executable, const Function& function,
                                          const CompileOptions& options) const override {
    if (!can_refit_) return Engine::refit(executable, function, options);
    return make("refit()", function, options, [&](nb::handle view) {
      return object_.get().attr("refit")(object_of(executable), view);
    });
  }

 private:
  template <typename Step>
  std::invoke_result_t<Step> guarded(const std::string& step, Step&& body) const {
    try {
      return body();
    } catch (nb::python_error& error) {
      throw_engine_error(about_.name, step, error);
    }
  }

  bool untrained(const Graph& graph, NodeId id, Phase phase) const {
    return phase == Phase::kTraining && !traits(graph.node(id).qualified_op()).training;
  }
  static Support not_trained(const std::string& op) {
    return Support::no(op + " runs in inference only");
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
                            about_.name, method, repr_of(given)));
  }

  Support ask(const std::shared_ptr<Source>& source, const SupportQuery& query) const {
    if (untrained(query.graph, query.node, query.phase)) {
      return not_trained(query.graph.node(query.node).op);
    }
    return guarded("supports()", [&] {
      nb::object given = object_.get().attr("supports")(nb::cast(view_of(source, query)));
      return answer(given, "supports");
    });
  }

  template <typename Call>
  std::shared_ptr<const Executable> make(const char* method, const Function& function,
                                         const CompileOptions& options, Call&& call) const {
    const Gil gil;
    const std::string step = fmt::format("{} of {}", method, function.name);
    return guarded(step, [&] {
      const Lent lent(function.graph);
      FunctionView view;
      static_cast<GraphView&>(view) = view_of(lent.source(), options.device, options.phase);
      view.name = function.name;
      view.num_threads = options.num_threads;
      view.max_batch_size = options.max_batch_size;
      view.max_workspace_bytes = options.max_workspace_bytes;
      view.records_dir = options.records_dir.string();
      view.compile_options = &options;
      for (const InputOutputAlias& alias : function.aliases) {
        view.aliases.emplace_back(alias.input, alias.output);
      }
      for (const auto& [key, value] : options.engine_options) {
        view.options[text_object(key)] = text_object(value);
      }
      std::vector<Port> outputs = view.outputs;
      nb::object made = call(nb::cast(std::move(view)));
      return make_executable(about_.name, method, function.name, std::move(outputs),
                             std::move(made), can_load_, options.num_threads);
    });
  }

  Description about_;
  bool asks_whole_graph_, can_load_, can_refit_;
  Held object_;
};

// The Python side of discovery: names() and load(name) of openxrt.engines.
class PyProvider final : public EngineProvider {
 public:
  PyProvider(nb::object names, nb::object load)
      : names_(std::move(names)), load_(std::move(load)) {}

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

 private:
  Held names_, load_;
};

}  // namespace

void bind_engine(nb::module_& module) {
  bind_engine_views(module);
  nb::class_<OpTraits>(module, "OpTraits", "What an engine says about an op as a whole.")
      .def(
          "__init__",
          [](OpTraits* self, bool training, bool optimizer, std::vector<std::int32_t> inputs) {
            new (self) OpTraits{training, optimizer, std::move(inputs)};
          },
          nb::kw_only(), nb::arg("training") = false, nb::arg("optimizer") = false,
          nb::arg("mutable_inputs") = std::vector<std::int32_t>())
      .def_ro("training", &OpTraits::training, "It may be part of a training step.")
      .def_ro("optimizer", &OpTraits::optimizer,
              "It updates variables: it stays in one function with what it writes.")
      .def_ro("mutable_inputs", &OpTraits::mutable_inputs,
              "Positions of inputs that it can write in place.");
  module.def(
      "register_engine",
      [](nb::object object, std::string name, std::string version, std::vector<std::string> devices,
         bool dynamic_shapes, std::string location, std::vector<std::string> ops,
         std::map<std::string, OpTraits> traits, bool training,
         std::optional<std::vector<std::string>> options, bool in_place,
         std::vector<std::string> files) {
        Description about{
            std::move(name),    std::move(version), std::move(location), std::move(devices),
            std::move(ops),     dynamic_shapes,     std::move(traits),   {},
            std::move(options), in_place,           std::move(files)};
        about.otherwise.training = training;
        register_engine(std::make_shared<PyEngine>(std::move(about), std::move(object)));
      },
      nb::arg("object"), nb::arg("name"), nb::arg("version"), nb::arg("devices"),
      nb::arg("dynamic_shapes"), nb::arg("location"), nb::arg("ops"), nb::arg("traits"),
      nb::arg("training"), nb::arg("options").none(), nb::arg("in_place"), nb::arg("files"));
  module.def("finish_writing", finish_writing, nb::call_guard<nb::gil_scoped_release>(),
             "Waits until the disk cache holds what was made so far; needs Python's engines.");
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
      [](nb::object names, nb::object load) {
        set_engine_provider(std::make_shared<PyProvider>(std::move(names), std::move(load)));
      },
      nb::arg("names"), nb::arg("load"),
      "names() lists engines that load(name) imports and registers; load() returns False for a "
      "name it does not know.");
}

}  // namespace xrt::python
