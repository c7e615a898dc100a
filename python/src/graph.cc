// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/native_evaluator.h"
#include "gil.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "onnx/exporter.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "values/convert.h"
#include "values/type.h"
#include "xrt/autodiff.h"
#include "xrt/error.h"
#include "xrt/model.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

DType dtype_of(const std::string& name) {
  const auto dtype = parse_dtype(name);
  if (!dtype || *dtype == DType::kUndefined) fail(fmt::format("'{}' is no element type", name));
  return *dtype;
}

// An int, a str (symbol) or None (unknown) per dimension; None: the rank is unknown.
Type type_of(const std::string& dtype, const nb::object& shape) {
  if (shape.is_none()) return Type::tensor(dtype_of(dtype));
  return Type::tensor(dtype_of(dtype), shape_of(shape));
}

// A graph under construction. Values are given out as their ids (int); None is an absent input.
class PyGraph {
 public:
  explicit PyGraph(const std::string& name) : graph_(name) {}
  explicit PyGraph(Graph graph) : graph_(std::move(graph)) {}

  const Graph& graph() const { return graph_; }

  std::int32_t add_input(const std::string& name, const std::string& dtype,
                         const nb::object& shape) {
    return graph_.add_input(name, type_of(dtype, shape)).index;
  }

  std::int32_t add_constant(const nb::object& array, const std::string& dtype,
                            const std::string& name) {
    const Data data = to_data(array, Type::tensor(dtype_of(dtype)),
                              fmt::format("constant '{}'", name), Access::kRead);
    return graph_.add_constant(name, data.tensor()).index;
  }

  std::int32_t add_packed_constant(const nb::object& bytes, const std::string& dtype, Dims shape,
                                   const std::string& name) {
    const Data data = to_data(bytes, Type::tensor(DType::kUInt8),
                              fmt::format("constant '{}'", name), Access::kRead);
    const Tensor& from = data.tensor();
    const DType type = dtype_of(dtype);
    const bool is_shape =
        std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size >= 0; });
    if (!is_packed(type) || from.dtype() != DType::kUInt8 || !is_shape ||
        from.bytes() != byte_count(type, shape)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("constant '{}': {} bytes are no {}{}", name, from.bytes(), dtype,
                              to_string(std::span<const std::int64_t>(shape))));
    }
    Tensor packed =
        Tensor::wrap(type, std::move(shape), const_cast<void*>(from.raw()), from.owner());
    return graph_.add_constant(name, std::move(packed)).index;
  }

  std::int32_t add_capture(std::int32_t outer, const std::string& name, const std::string& dtype,
                           const nb::object& shape) {
    return graph_.add_capture(ValueId{outer}, name, type_of(dtype, shape)).index;
  }

  std::vector<std::int32_t> add_node(const std::string& op, const nb::object& inputs,
                                     const std::vector<std::string>& outputs,
                                     const nb::dict& attributes, const std::string& domain,
                                     const std::string& name) {
    std::vector<ValueId> ids;
    for (const nb::handle input : inputs) {
      ids.push_back(input.is_none() ? ValueId{} : value(nb::cast<std::int32_t>(input)));
    }
    Attributes values;
    for (auto [key, attribute] : attributes) {
      auto text = nb::cast<std::string>(key);
      Attribute converted = to_attribute(attribute, op, text);
      values.emplace(std::move(text), std::move(converted));
    }
    const NodeId node = graph_.add_node(domain, op, ids, outputs, std::move(values), name);
    std::vector<std::int32_t> result;
    for (const ValueId v : graph_.node(node).outputs) result.push_back(v.index);
    return result;
  }

  void add_output(std::int32_t id) { graph_.add_output(value(id)); }
  void set_name(std::int32_t id, const std::string& name) {
    graph_.set_value_name(value(id), name);
  }
  void set_type(std::int32_t id, const std::string& dtype, const nb::object& shape) {
    graph_.set_type(value(id), type_of(dtype, shape));
  }
  std::string name_of(std::int32_t id) const { return graph_.value(value(id)).name; }
  Type type(std::int32_t id) const { return graph_.type(value(id)); }

  // Verifies, infers types and, with `simplify`, runs the passes.
  void finish(bool simplify) {
    ReleasedGil release;
    verify(graph_);
    infer_shapes(graph_);
    if (simplify) run_passes(graph_, {.evaluate = native_evaluator(), .dump_dir = {}});
  }

  nb::bytes to_onnx() const {
    std::string bytes;
    {
      ReleasedGil release;
      bytes = export_onnx(graph_);
    }
    return nb::bytes(bytes.data(), bytes.size());
  }

  // Adds the gradients of `loss` with respect to `wrt` and returns their ids.
  std::vector<std::int32_t> add_gradients(std::int32_t loss, const std::vector<std::int32_t>& wrt,
                                          std::optional<std::int32_t> seed, bool allow_unused) {
    std::vector<ValueId> values;
    values.reserve(wrt.size());
    for (const std::int32_t id : wrt) values.push_back(value(id));
    GradientOptions options;
    options.allow_unused = allow_unused;
    if (seed) options.seed = value(*seed);
    std::vector<std::int32_t> result;
    for (const ValueId v : gradients(graph_, value(loss), values, options)) {
      result.push_back(v.index);
    }
    return result;
  }

  nb::dict inputs() const { return types(graph_.inputs()); }
  nb::dict outputs() const { return types(graph_.outputs()); }

  std::size_t node_count() const { return graph_.node_count(); }
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (const NodeId id : graph_.topological_order()) {
      names.push_back(graph_.node(id).qualified_op());
    }
    return names;
  }

 private:
  nb::dict types(const std::vector<ValueId>& values) const {
    nb::dict by_name;
    for (const ValueId id : values) {
      by_name[graph_.value(id).name.c_str()] = nb::cast(graph_.type(id));
    }
    return by_name;
  }

  ValueId value(std::int32_t index) const {
    const ValueId id{index};
    if (index < 0 || static_cast<std::size_t>(index) >= graph_.value_capacity() ||
        !graph_.alive(id)) {
      fail(fmt::format("the graph has no value {}", index));
    }
    return id;
  }

  static Attribute to_attribute(nb::handle object, const std::string& op, const std::string& name) {
    const std::string where = fmt::format("{}, attribute '{}'", op, name);
    if (PyBool_Check(object.ptr()) || PyLong_Check(object.ptr())) {
      return nb::cast<std::int64_t>(object);
    }
    if (PyFloat_Check(object.ptr())) return nb::cast<float>(object);
    if (nb::isinstance<nb::str>(object)) return nb::cast<std::string>(object);
    if (nb::isinstance<PyGraph>(object)) {
      return std::make_shared<Graph>(nb::cast<const PyGraph&>(object).graph());
    }
    if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
      return to_list(object, where);
    }
    fail(fmt::format("{}: a value of type {} cannot be an attribute", where,
                     nb::type_name(object.type()).c_str()));
  }

  static Attribute to_list(nb::handle object, const std::string& where) {
    bool ints = true;
    bool texts = nb::len(object) > 0;
    for (const nb::handle item : object) {
      ints = ints && PyLong_Check(item.ptr());
      texts = texts && nb::isinstance<nb::str>(item);
    }
    if (ints) return nb::cast<std::vector<std::int64_t>>(object);
    if (texts) return nb::cast<std::vector<std::string>>(object);
    std::vector<float> numbers;
    for (const nb::handle item : object) {
      if (!PyFloat_Check(item.ptr()) && !PyLong_Check(item.ptr())) {
        fail(fmt::format("{}: a list of int, of float or of str is wanted", where));
      }
      numbers.push_back(nb::cast<float>(item));
    }
    return numbers;
  }

  Graph graph_;
};

}  // namespace

const Graph* as_graph(nb::handle object) {
  return nb::isinstance<PyGraph>(object) ? &nb::cast<const PyGraph&>(object).graph() : nullptr;
}

nb::object graph_object(Graph graph) { return nb::cast(PyGraph(std::move(graph))); }

void bind_graph(nb::module_& module) {
  nb::class_<PyGraph>(
      module, "Graph",
      "A graph built node by node: how a frontend written in Python makes one. Ops are those of "
      "ONNX at the pinned opset. Values are ints, given out by the add_… calls; None is an absent "
      "input. openxrt.load() takes a Graph as it takes a model.")
      .def(nb::init<const std::string&>(), nb::arg("name") = "graph")
      .def_static(
          "parse", [](const std::string& text) { return new PyGraph(parse_graph(text)); },
          nb::arg("text"), nb::rv_policy::take_ownership,
          "The graph that such text (see text()) describes; InvalidModel with its line otherwise.")
      .def_static(
          "read",
          [](const std::filesystem::path& path) {
            const ReleasedGil release;
            return new PyGraph(import_model(path));
          },
          nb::arg("path"), nb::rv_policy::take_ownership,
          "The graph of a model: of an ONNX file, or of a folder that OneFlow saved. Nothing is "
          "compiled, and weights in files of their own are not read.")
      .def("add_input", &PyGraph::add_input, nb::arg("name"), nb::arg("dtype"),
           nb::arg("shape").none(),
           "An entry parameter. shape: an int, a str (symbol) or None (unknown) per dimension; "
           "None where the rank is unknown.")
      .def("add_constant", &PyGraph::add_constant, nb::arg("array"), nb::arg("dtype"),
           nb::arg("name") = "",
           "A constant. Dense memory (NumPy, DLPack) is shared and kept alive, not copied.")
      .def("add_packed_constant", &PyGraph::add_packed_constant, nb::arg("bytes"), nb::arg("dtype"),
           nb::arg("shape"), nb::arg("name") = "",
           "A constant of elements that are narrower than a byte (int4, uint4 …) and lie packed in "
           "dense uint8 memory, low bits first. The memory is shared and kept alive, not copied.")
      .def("add_capture", &PyGraph::add_capture, nb::arg("outer"), nb::arg("name"),
           nb::arg("dtype"), nb::arg("shape").none(),
           "In a sub-graph: the value `outer` of the graph around it.")
      .def(
          "add_node", &PyGraph::add_node, nb::arg("op"), nb::arg("inputs"), nb::arg("outputs"),
          nb::arg("attributes") = nb::dict(), nb::arg("domain") = "", nb::arg("name") = "",
          "A node; returns the ids of its outputs, one per name in `outputs` (taken or empty names "
          "are made unique). Attributes: int, float, str, Graph, or a list of one kind.")
      .def("add_output", &PyGraph::add_output, nb::arg("value"), "A return parameter.")
      .def("set_name", &PyGraph::set_name, nb::arg("value"), nb::arg("name"),
           "Renames a value; InvalidArgument where the name is taken.")
      .def("set_type", &PyGraph::set_type, nb::arg("value"), nb::arg("dtype"),
           nb::arg("shape").none(), "Declares the type of a value, as in add_input().")
      .def("name_of", &PyGraph::name_of, nb::arg("value"))
      .def("type_of", &PyGraph::type, nb::arg("value"), "Its Type.")
      .def("finish", &PyGraph::finish, nb::arg("simplify") = false,
           "Verifies the graph and infers every type; with simplify also runs the graph passes.")
      .def(
          "gradients", &PyGraph::add_gradients, nb::arg("loss"), nb::arg("wrt"),
          nb::arg("seed").none() = nb::none(), nb::arg("allow_unused") = false,
          "Adds nodes for d(loss)/d(value) for each value of `wrt` and returns the results in that "
          "order. `seed` is the gradient of the loss, 1 where left out; a loss of more than one "
          "element needs it. Unsupported names a node on the way that has no gradient.")
      .def("to_onnx", &PyGraph::to_onnx, "The graph as the bytes of an ONNX model.")
      .def_prop_ro("inputs", &PyGraph::inputs, "The Type of each input, by name.")
      .def_prop_ro("outputs", &PyGraph::outputs, "The Type of each output, by name.")
      .def_prop_ro("node_count", &PyGraph::node_count)
      .def("ops", &PyGraph::ops, "Qualified op of every node, in topological order.")
      .def(
          "text", [](const PyGraph& self) { return print(self.graph()); },
          "The graph as text, which parse() reads back where no constant is large.")
      .def("__repr__", [](const PyGraph& self) {
        return fmt::format("<openxrt.Graph {}: {} nodes>", self.graph().name(), self.node_count());
      });
}

}  // namespace xrt::python
