// SPDX-License-Identifier: Apache-2.0
#include "custom/engine_views.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "engine/host.h"
#include "gil.h"
#include "ir/extract.h"
#include "ir/printer.h"
#include "ops/fingerprint.h"
#include "plan/plan.h"
#include "values/convert.h"
#include "xrt/error.h"
#include "xrt/onnx.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Where big constants are said to be, in models that leave them to constants().
constexpr const char* kConstantsLocation = "openxrt-constants";
// Constants up to this size are told apart by value in a node's signature: shapes, axes, scales.
constexpr std::size_t kSignatureBytes = 1024;

template <typename T>
nb::object attribute_object(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text_object(value);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return to_python(value, /*read_only=*/true);  // the graph's own memory
  } else if constexpr (std::is_same_v<T, Type>) {
    return nb::cast(value);
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

// A constant as a read-only array: its memory may be a mapped file.
nb::object constant_object(const Tensor& tensor) { return to_python(tensor, /*read_only=*/true); }

Type relaxed(const Type& type, bool shapes) {
  if (shapes || !type.is_tensor() || !type.shape) return type;
  Type result = type;
  result.shape = Shape(type.shape->size(), Dim());
  return result;
}

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// The node alone, with names that say nothing: inputs i0, i1, … and outputs o0, o1, …. Constants
// above `limit` bytes are inputs. Without `shapes` every dimension is unknown.
Graph node_alone(const Graph& graph, NodeId id, bool shapes, std::size_t limit) {
  const Node& node = graph.node(id);
  Graph alone("node");
  alone.opsets() = graph.opsets();
  std::map<ValueId, ValueId> map;
  for (const ValueId v : graph.dependencies(id)) {
    const Value& value = graph.value(v);
    const std::string name = fmt::format("i{}", map.size());
    const bool inside =
        value.origin == Origin::kConstant &&
        (value.constant.dtype() == DType::kString || value.constant.bytes() <= limit);
    map[v] = inside ? alone.add_constant(name, value.constant)
                    : alone.add_input(name, relaxed(value.type, shapes));
  }
  const auto mapped = [&](ValueId v) { return v.valid() ? map.at(v) : v; };
  std::vector<ValueId> inputs;
  for (const ValueId v : node.inputs) inputs.push_back(mapped(v));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    names.push_back(node.outputs[i].valid() ? fmt::format("o{}", i) : std::string());
  }
  Attributes attributes = node.attributes;
  const auto copy = [&](std::shared_ptr<Graph>& body) {
    body = std::make_shared<Graph>(*body);
    body->remap_captures(mapped);
  };
  for (auto& [name, attribute] : attributes) {
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) copy(*one);
    if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
      std::for_each(many->begin(), many->end(), copy);
    }
  }
  const NodeId made = alone.add_node(node.domain, node.op, std::move(inputs), names,
                                     std::move(attributes), "node", /*omit_empty=*/true);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const ValueId now = alone.node(made).outputs[i];
    alone.set_type(now, relaxed(graph.type(node.outputs[i]), shapes));
    alone.add_output(now);
  }
  return alone;
}

// Whether there is a tensor of more than `limit` bytes that constants() cannot give as it is:
// inside of a node (in a body or an attribute), or of elements narrower than a byte.
bool holds_large(const Graph& graph, std::size_t limit, bool is_body) {
  const auto large = [&](const Tensor& tensor) {
    return tensor.dtype() != DType::kString && tensor.bytes() > limit;
  };
  for (const ValueId v : graph.constants()) {
    const Tensor& tensor = *graph.constant(v);
    if (large(tensor) && (is_body || is_packed(tensor.dtype()))) return true;
  }
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* one = std::get_if<Tensor>(&attribute); one != nullptr && large(*one)) {
        return true;
      }
      if (const auto* many = std::get_if<std::vector<Tensor>>(&attribute)) {
        if (std::any_of(many->begin(), many->end(), large)) return true;
      }
    }
    for (const Graph* body : Graph::subgraphs(node)) {
      if (holds_large(*body, limit, /*is_body=*/true)) return true;
    }
  }
  return false;
}

void constants_to_inputs(Graph& graph, std::size_t limit) {
  for (const ValueId v : graph.constants()) {
    const Tensor& tensor = *graph.constant(v);
    if (tensor.dtype() == DType::kString || tensor.bytes() <= limit) continue;
    const std::string name = graph.value(v).name;
    const Type type = graph.type(v);
    graph.set_value_name(v, name + "/constant");
    const ValueId input = graph.add_input(name, type);
    graph.replace_uses(v, input);
    graph.remove_value(v);
  }
}

std::vector<std::optional<Type>> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::optional<Type>> types;
  types.reserve(values.size());
  for (const ValueId v : values) {
    types.push_back(v.valid() ? std::optional(graph.type(v)) : std::nullopt);
  }
  return types;
}

}  // namespace

nb::object text_object(const std::string& text) {
  nb::object object = nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (!object.is_valid()) throw nb::python_error();
  return object;
}

nb::object python_attribute(const Attribute& attribute) {
  return std::visit([](const auto& held) { return attribute_object(held); }, attribute);
}

const Graph& Source::get() const {
  if (graph == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "a view of a graph works only while the engine method it was given to runs");
  }
  return *graph;
}

std::string NodeView::signature(bool shapes) const {
  return fingerprint(node_alone(source->get(), id, shapes, kSignatureBytes)).hex();
}

nb::bytes NodeView::to_onnx(bool shapes) const {
  return as_bytes(export_onnx(node_alone(source->get(), id, shapes, kSignatureBytes)));
}

nb::list GraphView::nodes() const {
  const Graph& graph = source->get();
  nb::list nodes;
  for (const NodeId id : graph.topological_order()) {
    nodes.append(nb::cast(view_of(
        source,
        {xrt::view_of(graph), id, device, training ? Phase::kTraining : Phase::kInference, {}})));
  }
  return nodes;
}

std::map<std::string, std::int64_t> GraphView::opsets() const {
  return exported_opsets(source->get());
}

nb::bytes GraphView::to_onnx(const std::optional<std::vector<NodeView>>& nodes,
                             std::optional<std::size_t> inline_limit,
                             const std::string& large) const {
  const Graph* graph = &source->get();
  std::optional<Graph> part;
  if (nodes) {
    std::vector<bool> wanted(graph->node_capacity(), false);
    for (const NodeView& node : *nodes) wanted[static_cast<std::size_t>(node.id.index)] = true;
    std::vector<NodeId> ids = graph->topological_order();
    std::erase_if(ids, [&](NodeId id) { return !wanted[static_cast<std::size_t>(id.index)]; });
    part = extract(*graph, ids, graph->name()).graph;
    graph = &*part;
  }
  ExportOptions options;
  options.location = kConstantsLocation;
  if (large == "input") {
    if (!part) {
      part = *graph;
      graph = &*part;
    }
    constants_to_inputs(*part, inline_limit.value_or(kSignatureBytes));
  } else if (large != "external") {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("to_onnx(): large is \"external\" or \"input\", not \"{}\"", large));
  } else if (inline_limit && !holds_large(*graph, *inline_limit, /*is_body=*/false)) {
    options.inline_limit = *inline_limit;
  }
  return as_bytes(export_onnx(*graph, options));
}

nb::dict GraphView::constants(std::size_t larger_than) const {
  const Graph& graph = source->get();
  nb::dict result;
  for (const ValueId v : graph.constants()) {
    const Tensor& tensor = *graph.constant(v);
    if (tensor.dtype() == DType::kString && larger_than > 0) continue;
    if (larger_than > 0 && tensor.bytes() <= larger_than) continue;
    result[text_object(graph.value(v).name)] = constant_object(tensor);
  }
  return result;
}

void FunctionView::progress(const std::string& what, double part) const {
  source->get();
  if (!compile_options->progress) return;
  const ReleasedGil release;
  compile_options->progress(what, std::clamp(part, 0.0, 1.0));
}

NodeView view_of(const std::shared_ptr<Source>& source, const SupportQuery& query) {
  const Graph& graph = graph_of(query.graph);
  const Node& node = graph.node(query.node);
  NodeView view;
  view.source = source;
  view.id = query.node;
  view.name = node.name;
  view.domain = node.domain;
  view.op = node.op;
  view.device = query.device;
  view.training = query.phase == Phase::kTraining;
  view.inputs = names_of(graph, node.inputs);
  view.outputs = names_of(graph, node.outputs);
  view.input_types = types_of(graph, node.inputs);
  view.output_types = types_of(graph, node.outputs);
  view.mutable_inputs = query.mutable_inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    const Tensor* constant = v.valid() ? graph.constant(v) : nullptr;
    if (constant != nullptr) view.constants[nb::cast(i)] = constant_object(*constant);
  }
  for (const auto& [name, value] : node.attributes) {
    view.attributes[text_object(name)] = python_attribute(value);
  }
  return view;
}

GraphView view_of(const std::shared_ptr<Source>& source, const std::string& device, Phase phase) {
  const Graph& graph = source->get();
  GraphView view;
  view.source = source;
  view.name = graph.name();
  view.device = device;
  view.training = phase == Phase::kTraining;
  view.inputs = ports_of(graph, graph.inputs());
  view.outputs = ports_of(graph, graph.outputs());
  return view;
}

std::vector<Port> ports_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Port> ports;
  ports.reserve(values.size());
  for (const ValueId value : values) {
    ports.push_back({graph.value(value).name, graph.type(value), false});
  }
  return ports;
}

void bind_engine_views(nb::module_& module) {
  nb::class_<NodeView>(module, "NodeView", "A node, as an engine's supports() sees it.")
      .def_ro("name", &NodeView::name)
      .def_ro("domain", &NodeView::domain, "\"\" is the ONNX standard.")
      .def_ro("op", &NodeView::op)
      .def_ro("device", &NodeView::device, "What the node is to run on: \"cpu\", \"cuda:0\".")
      .def_ro("training", &NodeView::training, "It is part of a training step.")
      .def_ro("inputs", &NodeView::inputs, "Names of the values read, \"\" for one left out.")
      .def_ro("outputs", &NodeView::outputs, "Names of the values written.")
      .def_ro("input_types", &NodeView::input_types,
              "A Type each, None for an input that is left out.")
      .def_ro("output_types", &NodeView::output_types, "A Type each, None for one left out.")
      .def_ro("mutable_inputs", &NodeView::mutable_inputs,
              "Positions of inputs whose memory an output of the program is written into.")
      .def_ro("attributes", &NodeView::attributes,
              "Name to int, float, str, array, Type or a list of such; sub-graphs as text.")
      .def_ro("constants", &NodeView::constants,
              "Position of an input to its value, a read-only array, where it is a constant.")
      .def("signature", &NodeView::signature, nb::kw_only(), nb::arg("shapes") = false,
           "A digest of op, attributes, dtypes, ranks (with shapes=True: dimensions) and small "
           "constants, without names: equal for nodes that an engine need ask about once.")
      .def("to_onnx", &NodeView::to_onnx, nb::kw_only(), nb::arg("shapes") = true,
           "The node alone as an ONNX model with inputs i0, i1, … and outputs o0, o1, …; constants "
           "above 1 KB are inputs. Without shapes, dimensions are unknown.")
      .def("__repr__",
           [](const NodeView& node) { return fmt::format("<node {}: {}>", node.name, node.op); });
  nb::class_<GraphView>(module, "GraphView", "A graph, as an engine's supports_all() sees it.")
      .def_ro("name", &GraphView::name)
      .def_ro("device", &GraphView::device, "What it is to run on: \"cpu\", \"cuda:0\".")
      .def_ro("training", &GraphView::training, "It is a training step.")
      .def_ro("inputs", &GraphView::inputs, "Entry parameters: a list of Port.")
      .def_ro("outputs", &GraphView::outputs, "Return parameters: a list of Port.")
      .def_prop_ro("nodes", &GraphView::nodes, "Its nodes in topological order: NodeView.")
      .def_prop_ro("opsets", &GraphView::opsets,
                   "Domain to the version that to_onnx() declares: the oldest one at which every "
                   "node means the same.")
      .def("to_onnx", &GraphView::to_onnx, nb::arg("nodes") = nb::none(), nb::kw_only(),
           nb::arg("inline_limit") = nb::none(), nb::arg("large") = "external",
           "The graph, or some of its nodes, as a serialised ONNX ModelProto.\n\n"
           "Constants are inside, but for those of more than `inline_limit` bytes: with "
           "large=\"external\" they are external data at the location \"openxrt-constants\", and "
           "constants() gives them by name (where a tensor that constants() cannot give, in a body "
           "or an attribute or of elements narrower than a byte, is as large, all are inside); "
           "with large=\"input\" they are inputs of the model, enough for a "
           "library that is only asked what it supports.")
      .def("constants", &GraphView::constants, nb::arg("larger_than") = 0,
           "Name to read-only array, sharing the model's memory, of constants above so many bytes.")
      .def("__repr__", [](const GraphView& view) { return fmt::format("<graph {}>", view.name); });
  nb::class_<FunctionView, GraphView>(module, "FunctionView",
                                      "A function, as an engine's compile() sees it.")
      .def_ro("num_threads", &FunctionView::num_threads, "Threads of one run.")
      .def_ro("streams", &FunctionView::streams,
              "Runs at once that the executable is for, num_threads each: a pool that they share "
              "has num_threads * streams.")
      .def_ro("options", &FunctionView::options, "The engine's own options: str to str.")
      .def_ro("max_batch_size", &FunctionView::max_batch_size,
              "The largest first dimension to build for; 0: as declared.")
      .def_ro("ranges", &FunctionView::ranges,
              "Symbol of a dimension to (least, usual, most): the sizes to build for.")
      .def_ro("max_workspace_bytes", &FunctionView::max_workspace_bytes,
              "Bound on scratch memory per run; 0: none.")
      .def_ro("records_dir", &FunctionView::records_dir,
              "Folder for what the engine keeps beside its executables; \"\": nothing is kept.")
      .def_ro("aliases", &FunctionView::aliases,
              "(input, output) positions that share memory: an update in place.")
      .def("progress", &FunctionView::progress, nb::arg("what"), nb::arg("part"),
           "Tells whoever waits for a long compilation what is done, and the part done (0 to 1).")
      .def("__repr__",
           [](const FunctionView& view) { return fmt::format("<function {}>", view.name); });
}

}  // namespace xrt::python
