// SPDX-License-Identifier: Apache-2.0
#include "onnx/reader.h"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>

#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/message.h"
#include "base/work_scope.h"
#include "onnx/flags.h"
#include "onnx/node_order.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Functions that call functions multiply: a model of a few bytes may ask for any number of nodes.
constexpr std::int64_t kMaxInlinedNodes = 200'000;
// So does an op that nodes are put in place of: as many, and these for each node that is read.
constexpr std::int64_t kTranslatedPerNode = 100;

// Of a list beside the nodes, for TimeCheck: about a microsecond.
constexpr std::int64_t kOperationsPerEntry = 512;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

std::string describe(const onnx::NodeProto& node) {
  const std::string op = shortened(
      normal_domain(node.domain()).empty() ? node.op_type() : node.domain() + "." + node.op_type());
  if (!node.name().empty()) return fmt::format("node '{}' ({})", shortened(node.name()), op);
  for (const auto& output : node.output()) {
    if (!output.empty()) return fmt::format("the {} node that makes '{}'", op, shortened(output));
  }
  return fmt::format("a {} node without a name", op);
}

}  // namespace

std::string function_key(std::string_view domain, std::string_view name,
                         std::string_view overload) {
  return fmt::format("{}:{}:{}", normal_domain(domain), name, overload);
}

// Names of one graph or one inlined function body.
struct Reader::Scope {
  Graph* graph = nullptr;
  Scope* outer = nullptr;  // lexically around; it belongs to the graph around
  const Opsets* opsets = nullptr;
  const Bindings* bindings = nullptr;  // attributes of the call, in a function
  std::string prefix;                  // of names made by an inlined function
  int depth = 0;                       // graphs and calls around this one
  std::unordered_map<std::string, ValueId> values;
  std::unordered_map<std::string, Type> declared;
  std::unordered_map<std::string, std::string> renamed;  // a function's outputs, as the call says

  std::string value_name(const std::string& name) const {
    const auto it = renamed.find(name);
    return it != renamed.end() ? it->second : prefix + name;
  }
};

Graph Reader::read(const onnx::GraphProto& proto) {
  Graph graph(proto.name().empty() ? "graph" : proto.name());
  graph.opsets() = options_.opsets;
  graph.opsets()[""] = kOnnxOpset;
  Scope scope;
  scope.graph = &graph;
  scope.opsets = &options_.opsets;
  try {
    read_graph(proto, scope);
  } catch (const Error&) {
    throw_unreadable();  // what is odd behind an op that is not understood may follow from it
    throw;
  }
  throw_unreadable();
  return graph;
}

void Reader::read_graph(const onnx::GraphProto& proto, Scope& scope) {
  if (scope.depth > kMaxGraphNesting) {
    refuse(fmt::format("graph '{}': sub-graphs and function calls are nested deeper than {}",
                       proto.name(), kMaxGraphNesting));
  }
  TimeCheck clock;
  const auto declare = [&](const onnx::ValueInfoProto& info) {
    clock.spend(kOperationsPerEntry);
    if (!info.has_type()) return;
    scope.declared[info.name()] = type_from_proto(info.type(), "value '" + info.name() + "'");
  };
  for (const auto& info : proto.value_info()) declare(info);
  for (const auto& info : proto.output()) declare(info);
  read_inputs(proto, scope);
  for (const onnx::NodeProto* node : in_reading_order(proto.node())) read_node(*node, scope);
  read_outputs(proto, scope);
}

void Reader::read_inputs(const onnx::GraphProto& proto, Scope& scope) {
  Graph& graph = *scope.graph;
  std::unordered_map<std::string, Tensor> initial;
  TimeCheck clock;
  const auto add_initial = [&](const std::string& name, const auto& tensor) {
    clock.spend(kOperationsPerEntry);
    const std::string what = "initializer '" + name + "'";
    if (name.empty()) return;  // nothing can read it
    if (initial.contains(name)) log_warning(what + " is there twice: the latter holds");
    initial.insert_or_assign(name, tensor_from_proto(tensor, options_.tensors, what));
  };
  for (const auto& tensor : proto.initializer()) add_initial(tensor.name(), tensor);
  for (const auto& tensor : proto.sparse_initializer()) {
    add_initial(tensor.values().name(), tensor);
  }
  for (const auto& info : proto.input()) {
    clock.spend(kOperationsPerEntry);
    const std::string what = "input '" + info.name() + "'";
    if (info.name().empty()) refuse("graph '" + proto.name() + "': an input without a name");
    const auto it = initial.find(info.name());
    if (it != initial.end() && !options_.inputs_have_defaults) continue;  // a plain constant
    Type type = info.has_type() ? type_from_proto(info.type(), what) : Type{};
    const ValueId id = graph.add_input(scope.value_name(info.name()), std::move(type));
    define(scope, info.name(), id, what);
    if (it == initial.end()) continue;
    if (scope.outer != nullptr) refuse(what + " of a sub-graph must not have an initializer");
    const Type& declared = graph.type(id);
    const Type actual = Type::tensor(it->second.dtype(), it->second.dims());
    if (declared.dtype != DType::kUndefined && declared.dtype != actual.dtype) {
      refuse(fmt::format("{}: its default is {}, declared is {}", what, to_string(actual),
                         to_string(declared)));
    }
    if (declared.dtype == DType::kUndefined) graph.set_type(id, actual);
    graph.input_defaults()[id] = it->second;
    initial.erase(it);
  }
  // In the order of the message.
  const auto add_constant = [&](const std::string& name) {
    const auto it = initial.find(name);
    if (it == initial.end()) return;
    const ValueId id = graph.add_constant(scope.value_name(name), it->second);
    define(scope, name, id, "initializer '" + name + "'");
    initial.erase(it);
  };
  for (const auto& tensor : proto.initializer()) add_constant(tensor.name());
  for (const auto& tensor : proto.sparse_initializer()) add_constant(tensor.values().name());
}

void Reader::read_outputs(const onnx::GraphProto& proto, Scope& scope) {
  Graph& graph = *scope.graph;
  for (const auto& info : proto.output()) {
    const auto value = resolve(scope, info.name());
    if (!value || !value->valid()) {
      refuse(fmt::format("graph '{}': output '{}' is not made by any node", proto.name(),
                         info.name()));
    }
    ValueId id = *value;
    // Outputs are known by name: one that an inlined function passes through keeps its own.
    if (graph.value(id).name != info.name() || graph.is_output(id)) {
      const NodeId node = graph.add_node("", "Identity", {id}, {info.name()});
      id = graph.node(node).outputs[0];
    }
    graph.add_output(id);
  }
}

void Reader::define(Scope& scope, const std::string& name, ValueId value, const std::string& what) {
  if (!scope.values.emplace(name, value).second) {
    refuse(what + fmt::format(": the name '{}' is taken by another value", name));
  }
}

std::optional<ValueId> Reader::resolve(Scope& scope, const std::string& name) {
  const auto it = scope.values.find(name);
  if (it != scope.values.end()) return it->second;
  if (scope.outer == nullptr) return std::nullopt;
  const auto outer = resolve(*scope.outer, name);
  if (!outer || !outer->valid()) return outer;
  const Type& type = scope.outer->graph->type(*outer);
  const ValueId inner = scope.graph->add_capture(*outer, scope.value_name(name), type);
  scope.values.emplace(name, inner);
  return inner;
}

ValueId Reader::resolve_input(Scope& scope, const std::string& name, const onnx::NodeProto& node) {
  if (name.empty()) return {};
  const auto value = resolve(scope, name);
  if (!value) {
    refuse(fmt::format("{}: its input '{}' is not defined before it, or in a cycle", describe(node),
                       name));
  }
  return *value;
}

std::int64_t Reader::opset_of(const Scope& scope, const onnx::NodeProto& node) const {
  const std::string domain(normal_domain(node.domain()));
  const auto it = scope.opsets->find(domain);
  if (it != scope.opsets->end()) return it->second;
  if (domain.empty()) refuse(describe(node) + ": the standard opset is not imported");
  return 1;  // a domain that nothing is known of
}

void Reader::check_schema(const onnx::NodeProto& node, std::int64_t version) const {
  const std::string domain(normal_domain(node.domain()));
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Instance()->GetSchema(
      node.op_type(), static_cast<int>(version), domain);
  // GroupNormalization of opset 18 was withdrawn for its definition, but is upgraded.
  const bool withdrawn =
      schema != nullptr && schema->deprecated() && node.op_type() != "GroupNormalization";
  if (schema == nullptr || withdrawn) {
    // Other domains may be known to an engine.
    if (domain.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} in opset {} of the ONNX standard",
                              schema == nullptr ? "no such op" : "the op is deprecated", version));
    }
    return;
  }
  if (schema->deprecated()) return;
  try {
    schema->Verify(node);
  } catch (const std::exception& e) {
    refuse(e.what());
  }
}

void Reader::note_unreadable(const onnx::NodeProto& node, const Error& error) {
  const std::string op = node.domain() + ":" + node.op_type();
  for (Unreadable& known : unreadable_) {
    if (known.op != op || known.reason != error.what()) continue;
    ++known.count;
    return;
  }
  unreadable_.push_back({op, describe(node), error.what()});
}

void Reader::throw_unreadable() const {
  if (unreadable_.empty()) return;
  constexpr std::size_t kMostOps = 8;
  const auto rest = [](std::size_t all) {
    return all > kMostOps ? fmt::format("\n  and {} more ops", all - kMostOps) : std::string();
  };
  std::string text;
  for (const Unreadable& op : unreadable_) {
    if (&op >= unreadable_.data() + kMostOps) break;
    text += text.empty() ? "" : "\n  ";
    text += fmt::format("{}: {}", op.first, op.reason);
    if (op.count > 1) text += fmt::format(" ({} nodes of this op)", op.count);
  }
  text += rest(unreadable_.size());
  if (unreadable_.size() > 1) {
    text = fmt::format("{} ops cannot be read\n  {}", unreadable_.size(), text);
  }
  if (!foreign_.empty()) text += "\nbesides, nothing but an engine of its own may know";
  std::size_t shown = 0;
  for (const auto& [op, count] : foreign_) {
    if (++shown > kMostOps) break;
    text += fmt::format("\n  {} ({} {})", shortened(op, 80), count, count == 1 ? "node" : "nodes");
  }
  text += rest(foreign_.size());
  throw Error(ErrorCode::kUnsupported, text);
}

void Reader::count_node(std::int64_t& kind) {
  ++kind;
  if (nodes_read_ + nodes_translated_ > options_.max_nodes) {
    throw Error(ErrorCode::kResource,
                fmt::format("the model has more than {} nodes (max_nodes)", options_.max_nodes));
  }
}

void Reader::translate(NodeDraft& draft, Graph& graph) {
  options_.translate(graph, draft, [&](Graph& owner, NodeId node) {
    throw_if_interrupted();
    count_node(nodes_translated_);
    if (nodes_translated_ > kMaxInlinedNodes + kTranslatedPerNode * nodes_read_) {
      throw Error(ErrorCode::kResource,
                  fmt::format("putting ops of the standard in place of the model's makes more than "
                              "{} nodes, and {} for each of its own",
                              kMaxInlinedNodes, kTranslatedPerNode));
    }
    if (options_.infer) options_.infer(owner, node);
  });
}

void Reader::upgrade(NodeDraft& draft, Graph& graph, std::int64_t version) {
  const std::size_t first = graph.node_capacity();
  options_.upgrade(graph, draft, version);
  if (!options_.infer) return;
  for (std::size_t i = first; i < graph.node_capacity(); ++i) {
    options_.infer(graph, NodeId{static_cast<std::int32_t>(i)});
  }
}

void Reader::read_node(const onnx::NodeProto& proto, Scope& scope) {
  constexpr std::int64_t kNodesPerLook = 256;
  try {
    count_node(nodes_read_);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", describe(proto), e.what()));
  }
  if (nodes_read_ % kNodesPerLook == 0) throw_if_interrupted();
  if (scope.bindings != nullptr && ++nodes_inlined_ > kMaxInlinedNodes) {
    throw Error(
        ErrorCode::kResource,
        fmt::format("inlining the model's functions makes more than {} nodes", kMaxInlinedNodes));
  }
  if (proto.op_type().empty()) refuse(describe(proto) + ": it names no op");
  const auto function =
      options_.functions.find(function_key(proto.domain(), proto.op_type(), proto.overload()));
  if (function != options_.functions.end()) {
    call_function(proto, *function->second, scope);
    return;
  }
  const std::int64_t version = opset_of(scope, proto);
  const bool translates = options_.translates && options_.translates(normal_domain(proto.domain()),
                                                                     proto.op_type(), version);
  bool readable = true;
  const auto try_to = [&](const auto& act) {
    try {
      act();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) {
        throw Error(e.code(), fmt::format("{}: {}", describe(proto), e.what()));
      }
      note_unreadable(proto, e);
      readable = false;
    }
  };
  if (options_.check_schemas && !translates) try_to([&] { check_schema(proto, version); });
  NodeDraft draft;
  draft.name = proto.name().empty() ? std::string() : scope.prefix + proto.name();
  draft.domain = normal_domain(proto.domain());
  draft.op = proto.op_type();
  for (const auto& name : proto.input()) {
    draft.inputs.push_back(resolve_input(scope, name, proto));
  }
  for (const auto& name : proto.output()) {
    draft.outputs.push_back(name.empty() ? std::string() : scope.value_name(name));
  }
  draft.attributes = read_attributes(proto, scope);
  if (draft.domain.empty() && draft.op == "Constant") {
    add_constant(proto, draft, scope);
    return;
  }
  const bool upgrades = draft.domain.empty() && options_.upgrade && version != kOnnxOpset;
  if (readable && translates) {
    try_to([&] { translate(draft, *scope.graph); });
  } else if (readable && upgrades) {
    try_to([&] { upgrade(draft, *scope.graph, version); });
  }
  const bool is_foreign =
      !draft.domain.empty() && onnx::OpSchemaRegistry::Schema(draft.op, draft.domain) == nullptr;
  if (readable && is_foreign) ++foreign_[draft.domain + "." + draft.op];
  if (draft.domain.empty()) normalize_flags(draft.attributes);
  add_node(proto, std::move(draft), scope);
}

void Reader::add_node(const onnx::NodeProto& proto, NodeDraft draft, Scope& scope) {
  Graph& graph = *scope.graph;
  std::vector<ValueId> outputs = std::move(draft.results);
  NodeId id;
  if (outputs.empty()) {
    id = graph.add_node(draft.domain, draft.op, std::move(draft.inputs), draft.outputs,
                        std::move(draft.attributes), draft.name, /*omit_empty=*/true);
    outputs = graph.node(id).outputs;
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const ValueId value = k < outputs.size() ? outputs[k] : ValueId{};
    if (!value.valid()) continue;
    define(scope, proto.output(i), value, describe(proto));
    const auto declared = scope.declared.find(proto.output(i));
    if (declared != scope.declared.end()) graph.set_type(value, declared->second);
  }
  if (id.valid() && options_.infer) options_.infer(graph, id);
}

void Reader::add_constant(const onnx::NodeProto& proto, const NodeDraft& draft, Scope& scope) {
  if (draft.attributes.size() != 1 || draft.outputs.size() != 1 || draft.outputs[0].empty()) {
    refuse(describe(proto) + ": it must have one output and exactly one value");
  }
  const auto& [name, attribute] = *draft.attributes.begin();
  Tensor tensor;
  if (const auto* t = std::get_if<Tensor>(&attribute)) {
    tensor = *t;
  } else if (const auto* i = std::get_if<std::int64_t>(&attribute)) {
    tensor = Tensor::scalar(*i);
  } else if (const auto* f = std::get_if<float>(&attribute)) {
    tensor = Tensor::scalar(*f);
  } else if (const auto* s = std::get_if<std::string>(&attribute)) {
    tensor = Tensor::from_strings({}, {*s});
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    tensor = Tensor::from_int64(*ints);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute)) {
    tensor = Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(floats->size())},
                                 std::span<const float>(*floats));
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&attribute)) {
    tensor = Tensor::from_strings({static_cast<std::int64_t>(strings->size())}, *strings);
  } else {
    refuse(fmt::format("{}: its attribute '{}' is no value", describe(proto), name));
  }
  const ValueId id = scope.graph->add_constant(draft.outputs[0], std::move(tensor));
  define(scope, proto.output(0), id, describe(proto));
}

Attributes Reader::read_attributes(const onnx::NodeProto& proto, Scope& scope) {
  Attributes attributes;
  for (const auto& given : proto.attribute()) {
    const std::string what = fmt::format("{}, attribute '{}'", describe(proto), given.name());
    if (given.name().empty()) refuse(describe(proto) + ": an attribute without a name");
    const onnx::AttributeProto* attribute = &given;
    Scope* names = &scope;
    if (!given.ref_attr_name().empty()) {
      if (scope.bindings == nullptr) refuse(what + " refers to another outside of a function");
      const auto it = scope.bindings->find(given.ref_attr_name());
      if (it == scope.bindings->end()) continue;  // the call leaves it out
      attribute = it->second.proto;
      names = it->second.scope;
    }
    Attribute value;
    if (attribute->type() == onnx::AttributeProto::GRAPH ||
        attribute->type() == onnx::AttributeProto::GRAPHS) {
      if (names == nullptr || names->graph != scope.graph) {
        throw Error(ErrorCode::kUnsupported,
                    what + ": a graph handed to a function is used inside another graph");
      }
      if (attribute->type() == onnx::AttributeProto::GRAPH) {
        value = read_subgraph(attribute->g(), *names, what);
      } else {
        std::vector<std::shared_ptr<Graph>> graphs;
        for (const auto& g : attribute->graphs()) {
          graphs.push_back(read_subgraph(g, *names, what));
        }
        value = std::move(graphs);
      }
    } else {
      value = attribute_from_proto(*attribute, options_.tensors, what);
    }
    if (!attributes.emplace(given.name(), std::move(value)).second) {
      refuse(what + " is given twice");
    }
  }
  return attributes;
}

std::shared_ptr<Graph> Reader::read_subgraph(const onnx::GraphProto& proto, Scope& scope,
                                             const std::string& what) {
  auto graph = std::make_shared<Graph>(proto.name().empty() ? "body" : proto.name());
  graph->opsets() = scope.graph->opsets();
  Scope inner;
  inner.graph = graph.get();
  inner.outer = &scope;
  inner.opsets = scope.opsets;
  inner.bindings = scope.bindings;
  inner.depth = scope.depth + 1;
  try {
    read_graph(proto, inner);
  } catch (const Error& e) {
    // Innermost place first; the chain of graphs stays readable for the usual depth of one or two.
    if (scope.depth > 2) throw;
    throw Error(e.code(), std::string(e.what()) + " [in " + what + "]");
  }
  return graph;
}

void Reader::call_function(const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                           Scope& scope) {
  if (proto.input_size() > function.input_size() || proto.output_size() > function.output_size()) {
    refuse(fmt::format("{}: it has {} inputs and {} outputs, the function takes {} and {}",
                       describe(proto), proto.input_size(), proto.output_size(),
                       function.input_size(), function.output_size()));
  }
  Bindings bindings;
  for (const auto& attribute : function.attribute_proto()) {
    bindings[attribute.name()] = {&attribute, nullptr};  // defaults
  }
  for (const auto& attribute : proto.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      bindings[attribute.name()] = {&attribute, &scope};
    } else if (scope.bindings != nullptr) {
      const auto it = scope.bindings->find(attribute.ref_attr_name());
      if (it != scope.bindings->end()) bindings[attribute.name()] = it->second;
    }
  }
  std::vector<ValueId> inputs;
  for (const auto& name : proto.input()) inputs.push_back(resolve_input(scope, name, proto));
  const Opsets opsets = opsets_of(function);
  Scope body;
  body.graph = scope.graph;
  body.opsets = &opsets;
  body.bindings = &bindings;
  body.depth = scope.depth + 1;
  body.prefix = scope.prefix + (proto.name().empty() ? proto.op_type() : proto.name()) + "/";
  for (int i = 0; i < proto.output_size(); ++i) {
    if (!proto.output(i).empty()) {
      body.renamed[function.output(i)] = scope.value_name(proto.output(i));
    }
  }
  const std::vector<ValueId> outputs = run_function(function, body, inputs);
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty()) continue;
    const ValueId value = outputs[static_cast<std::size_t>(i)];
    if (!value.valid()) {
      refuse(fmt::format("{}: the function does not make its output {}", describe(proto), i));
    }
    define(scope, proto.output(i), value, describe(proto));
    const auto declared = scope.declared.find(proto.output(i));
    if (declared != scope.declared.end() && scope.graph->value(value).origin == Origin::kNode) {
      scope.graph->set_type(value, declared->second);
    }
  }
}

std::vector<ValueId> Reader::run_function(const onnx::FunctionProto& function, Scope& body,
                                          const std::vector<ValueId>& inputs) {
  const std::string what = fmt::format("function '{}.{}'", function.domain(), function.name());
  if (body.depth > kMaxGraphNesting) {
    refuse(fmt::format("{}: calls are nested deeper than {}; does it call itself?", what,
                       kMaxGraphNesting));
  }
  for (int i = 0; i < function.input_size(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    define(body, function.input(i), k < inputs.size() ? inputs[k] : ValueId{}, what);
  }
  for (const auto& info : function.value_info()) {
    if (info.has_type()) body.declared[info.name()] = type_from_proto(info.type(), what);
  }
  for (const onnx::NodeProto* node : in_reading_order(function.node())) read_node(*node, body);
  std::vector<ValueId> outputs;
  for (const auto& name : function.output()) {
    outputs.push_back(resolve(body, name).value_or(ValueId{}));  // an optional one may be missing
  }
  return outputs;
}

std::vector<ValueId> Reader::inline_function(Graph& graph, const onnx::FunctionProto& function,
                                             const std::vector<ValueId>& inputs,
                                             const std::vector<onnx::AttributeProto>& attributes,
                                             const std::string& prefix) {
  Scope caller;
  caller.graph = &graph;
  Bindings bindings;
  for (const auto& attribute : function.attribute_proto()) {
    bindings[attribute.name()] = {&attribute, nullptr};
  }
  for (const auto& attribute : attributes) bindings[attribute.name()] = {&attribute, &caller};
  const Opsets opsets = opsets_of(function);
  Scope body;
  body.graph = &graph;
  body.opsets = &opsets;
  body.bindings = &bindings;
  body.prefix = prefix;
  std::vector<ValueId> outputs = run_function(function, body, inputs);
  throw_unreadable();
  return outputs;
}

}  // namespace xrt
