// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "convert.h"
#include "ir/printer.h"
#include "xrt/engine.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

nb::object text_object(const std::string& text) {
  nb::object object = nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (!object.is_valid()) throw nb::python_error();
  return object;
}

template <typename T>
nb::object attribute_object(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text_object(value);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return to_python(value);
  } else if constexpr (std::is_same_v<T, Type>) {
    return text_object(to_string(value));
  } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
    return text_object(print(*value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return nb::cast(value);
  } else {
    nb::list items;
    for (const auto& item : value) items.append(attribute_object(item));
    return items;
  }
}

// What supports() sees of a node; plain Python objects, so that it may be kept.
struct NodeView {
  std::string name, domain, op;
  std::vector<std::string> input_types, output_types;
  nb::dict attributes;
};

NodeView view_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  NodeView view{node.name, node.domain, node.op, {}, {}, {}};
  for (const ValueId value : node.inputs) {
    view.input_types.push_back(value.valid() ? to_string(graph.type(value)) : "");
  }
  for (const ValueId value : node.outputs) {
    view.output_types.push_back(value.valid() ? to_string(graph.type(value)) : "");
  }
  for (const auto& [name, value] : node.attributes) {
    view.attributes[text_object(name)] =
        std::visit([](const auto& held) { return attribute_object(held); }, value);
  }
  return view;
}

// What compile() is given.
struct FunctionView {
  std::string name;
  std::vector<Port> inputs, outputs;
  int num_threads = 1;
  nb::dict options;
  const Function* function = nullptr;  // null once compile() has returned

  nb::bytes to_onnx() const {
    if (function == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "to_onnx() may be called only while the engine's compile() runs");
    }
    const std::string model = function->to_onnx(std::numeric_limits<std::size_t>::max());
    return nb::bytes(model.data(), model.size());
  }
};

std::vector<Port> ports_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Port> ports;
  ports.reserve(values.size());
  for (const ValueId value : values) {
    ports.push_back({graph.value(value).name, graph.type(value), false});
  }
  return ports;
}

// Turns a Python exception of the engine into an error that carries its words.
[[noreturn]] void fail(const std::string& engine, const std::string& what,
                       nb::python_error& error) {
  const std::string type = nb::type_name(error.type()).c_str();
  throw Error(ErrorCode::kEngine, fmt::format("engine {} (Python): {}: {}: {}", engine, what, type,
                                              nb::str(error.value()).c_str()));
}

// A Python object that C++ owns. The interpreter may be gone before the last owner is.
class Held {
 public:
  explicit Held(nb::object object) : object_(object.release().ptr()) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (Py_IsInitialized() == 0) return;
    nb::gil_scoped_acquire gil;
    Py_DECREF(object_);
  }
  nb::handle get() const { return object_; }

 private:
  PyObject* object_;
};

class PyExecutable final : public Executable {
 public:
  PyExecutable(std::string engine, std::string function, std::vector<Port> outputs,
               nb::object callable)
      : engine_(std::move(engine)),
        function_(std::move(function)),
        outputs_(std::move(outputs)),
        callable_(std::move(callable)) {}

  void run(RunContext* /*context*/, std::span<const Data> inputs, std::span<Data> outputs,
           const RunOptions& /*options*/) const override {
    nb::gil_scoped_acquire gil;
    try {
      nb::list arguments;
      for (const Data& input : inputs) arguments.append(to_python(input));
      nb::object results = nb::borrow(callable_.get())(*nb::tuple(arguments));
      const bool many = nb::isinstance<nb::tuple>(results) ||
                        (nb::isinstance<nb::list>(results) &&
                         !(outputs_.size() == 1 && outputs_[0].type.kind == Type::Kind::kSequence));
      if (!many) results = nb::make_tuple(results);
      if (nb::len(results) != outputs_.size()) {
        throw Error(ErrorCode::kEngine,
                    fmt::format("engine {} (Python): {} returned {} results, {} are wanted",
                                engine_, function_, nb::len(results), outputs_.size()));
      }
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        take(to_data(results[i], outputs_[i].type,
                     fmt::format("engine {} (Python), result '{}'", engine_, outputs_[i].name),
                     Access::kRead),
             outputs_[i], outputs[i]);
      }
    } catch (nb::python_error& error) {
      fail(engine_, function_, error);
    }
  }

 private:
  void take(const Data& result, const Port& port, Data& output) const {
    if (!output.is_tensor()) {
      // The array stays the engine's: it may be reused for the next call.
      output = result.is_tensor() ? Data(result.tensor().clone()) : result;
      return;
    }
    Tensor& wanted = output.tensor();
    if (!result.is_tensor() || result.tensor().dtype() != wanted.dtype() ||
        result.tensor().dims() != wanted.dims()) {
      const Tensor& found = result.tensor();
      throw Error(
          ErrorCode::kEngine,
          fmt::format("engine {} (Python): {}: result '{}' is {}{}, {}{} is wanted", engine_,
                      function_, port.name, to_string(found.dtype()), to_string(found.dims()),
                      to_string(wanted.dtype()), to_string(wanted.dims())));
    }
    if (wanted.dtype() == DType::kString) {
      std::copy_n(result.tensor().strings(), wanted.count(), wanted.strings());
    } else if (wanted.bytes() > 0) {
      std::memcpy(wanted.raw(), result.tensor().raw(), wanted.bytes());
    }
  }

  std::string engine_, function_;
  std::vector<Port> outputs_;
  Held callable_;
};

class PyEngine final : public Engine {
 public:
  PyEngine(std::string name, std::string version, std::vector<std::string> devices,
           bool dynamic_shapes, std::string location, std::vector<std::string> ops,
           nb::object object)
      : name_(std::move(name)),
        version_(std::move(version)),
        devices_(std::move(devices)),
        dynamic_shapes_(dynamic_shapes),
        location_(std::move(location)),
        ops_(std::move(ops)),
        object_(std::move(object)) {}

  std::string name() const override { return name_; }
  std::string version() const override { return version_; }
  std::vector<std::string> devices() const override { return devices_; }
  bool dynamic_shapes() const override { return dynamic_shapes_; }
  std::string location() const override { return location_; }
  std::vector<std::string> ops() const override { return ops_; }

  Support supports(const SupportQuery& query) const override {
    if (query.phase != Phase::kInference) return Support::no("it runs inference only");
    nb::gil_scoped_acquire gil;
    try {
      nb::object answer =
          object_.get().attr("supports")(nb::cast(view_of(query.graph, query.node)));
      if (answer.ptr() == Py_True) return Support::yes();
      if (PyUnicode_Check(answer.ptr())) return Support::no(nb::cast<std::string>(answer));
      throw Error(ErrorCode::kEngine,
                  fmt::format("engine {} (Python): supports() must return True, or the reason of "
                              "a no as str; it returned {}",
                              name_, nb::repr(answer).c_str()));
    } catch (nb::python_error& error) {
      fail(name_, "supports()", error);
    }
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    nb::gil_scoped_acquire gil;
    try {
      auto* view = new FunctionView{function.name,
                                    ports_of(function.graph, function.graph.inputs()),
                                    ports_of(function.graph, function.graph.outputs()),
                                    options.num_threads,
                                    nb::dict(),
                                    &function};
      nb::object argument = nb::cast(view, nb::rv_policy::take_ownership);
      for (const auto& [key, value] : options.engine_options) {
        view->options[text_object(key)] = text_object(value);
      }
      // However compile() ends, the view must not outlive the function.
      struct Expire {
        FunctionView* view;
        ~Expire() { view->function = nullptr; }
      } expire{view};
      nb::object callable = object_.get().attr("compile")(argument);
      if (PyCallable_Check(callable.ptr()) == 0) {
        throw Error(ErrorCode::kEngine,
                    fmt::format("engine {} (Python): compile() must return a callable, not {}",
                                name_, nb::repr(callable).c_str()));
      }
      return std::make_shared<PyExecutable>(name_, function.name, view->outputs,
                                            std::move(callable));
    } catch (nb::python_error& error) {
      fail(name_, fmt::format("compile() of {}", function.name), error);
    }
  }

 private:
  std::string name_, version_;
  std::vector<std::string> devices_;
  bool dynamic_shapes_;
  std::string location_;
  std::vector<std::string> ops_;
  Held object_;
};

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<NodeView>(module, "NodeView", "A node, as an engine's supports() sees it.")
      .def_ro("name", &NodeView::name)
      .def_ro("domain", &NodeView::domain, "\"\" is the ONNX standard.")
      .def_ro("op", &NodeView::op)
      .def_ro("input_types", &NodeView::input_types,
              "Types as text (\"float32[N,3]\"), \"\" for an input that is left out.")
      .def_ro("output_types", &NodeView::output_types)
      .def_ro("attributes", &NodeView::attributes,
              "Name to int, float, str, array or a list of such; types and sub-graphs as text.")
      .def("__repr__",
           [](const NodeView& node) { return fmt::format("<node {}: {}>", node.name, node.op); });
  nb::class_<FunctionView>(module, "FunctionView", "A function, as an engine's compile() sees it.")
      .def_ro("name", &FunctionView::name)
      .def_ro("inputs", &FunctionView::inputs, "Entry parameters: a list of Port.")
      .def_ro("outputs", &FunctionView::outputs, "Return parameters: a list of Port.")
      .def_ro("num_threads", &FunctionView::num_threads, "This engine's share of the threads.")
      .def_ro("options", &FunctionView::options, "The engine's own options: str to str.")
      .def("to_onnx", &FunctionView::to_onnx,
           "The function as a serialised ONNX ModelProto with every constant inside, at the pinned "
           "opset. Only while compile() runs.")
      .def("__repr__",
           [](const FunctionView& view) { return fmt::format("<function {}>", view.name); });
  module.def(
      "register_engine",
      [](nb::object object, const std::string& name, const std::string& version,
         const std::vector<std::string>& devices, bool dynamic_shapes, const std::string& location,
         const std::vector<std::string>& ops) {
        register_engine(std::make_shared<PyEngine>(name, version, devices, dynamic_shapes, location,
                                                   ops, std::move(object)));
      },
      nb::arg("object"), nb::arg("name"), nb::arg("version"), nb::arg("devices"),
      nb::arg("dynamic_shapes"), nb::arg("location"), nb::arg("ops"));
}

}  // namespace xrt::python
