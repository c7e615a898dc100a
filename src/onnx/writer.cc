// SPDX-License-Identifier: Apache-2.0
#include "onnx/writer.h"

#include <onnx/checker.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/at_fork.h"
#include "onnx/opsets.h"
#include "onnx/upgrade.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Names = std::set<std::string, std::less<>>;

bool all_are(const Attribute& value, std::int64_t number) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  return list != nullptr && std::all_of(list->begin(), list->end(),
                                        [=](std::int64_t entry) { return entry == number; });
}

// Whether the standard says the same without this attribute: by a schema's default, or in words.
// Such attributes are not written, so that the model stays one of the oldest opset that can say it.
bool is_implied(const Node& node, const std::string& name, const Attribute& value) {
  if (!node.domain.empty()) return false;
  if (name == "strides" || name == "dilations") return all_are(value, 1);
  if (name == "pads" || name == "output_padding") return all_are(value, 0);
  const auto* schema =
      onnx::OpSchemaRegistry::Instance()->GetSchema(node.op, static_cast<int>(kOnnxOpset), "");
  if (schema == nullptr) return false;
  const auto found = schema->attributes().find(name);
  if (found == schema->attributes().end()) return false;
  const onnx::AttributeProto& implied = found->second.default_value;
  if (implied.type() == onnx::AttributeProto::UNDEFINED) return false;
  onnx::AttributeProto given;
  attribute_to_proto(name, value, {}, {}, &given);
  return given.SerializeAsString() == implied.SerializeAsString();
}

class Writer {
 public:
  Writer(const Graph& graph, const TensorWriter& tensor_writer, const Writer* outer)
      : graph_(graph), tensor_writer_(tensor_writer), outer_(outer) {
    name_values();
  }

  void write(onnx::GraphProto* proto);
  void write_node(NodeId id, onnx::NodeProto* proto);

 private:
  void name_values();
  bool taken(const std::string& name) const {
    return own_names_.contains(name) || taken_outside(name);
  }
  bool taken_outside(const std::string& name) const {
    return outer_ != nullptr && outer_->taken(name);
  }
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; taken(name); ++i) name = wanted + "_" + std::to_string(i);
    own_names_.insert(name);
    return name;
  }
  const std::string& name(ValueId id) const {
    return value_names_[static_cast<std::size_t>(id.index)];
  }
  void describe(ValueId id, const std::string& as, onnx::ValueInfoProto* info) const {
    info->set_name(as);
    const Type& type = graph_.type(id);
    if (type.dtype == DType::kUndefined && type.is_tensor()) return;
    type_to_proto(type, info->mutable_type());
  }
  void write_constant(const std::string& name, const Tensor& tensor, onnx::GraphProto* proto) const;
  void write_outputs(onnx::GraphProto* proto);

  const Graph& graph_;
  const TensorWriter& tensor_writer_;
  const Writer* outer_;
  std::vector<std::string> value_names_;
  Names own_names_;
};

void Writer::name_values() {
  value_names_.resize(graph_.value_capacity());
  for (const Capture& c : graph_.captures()) {
    // A sub-graph written by itself has nothing around it to refer to: its own name stays.
    value_names_[static_cast<std::size_t>(c.inner.index)] =
        outer_ != nullptr ? outer_->name(c.outer) : unique(graph_.value(c.inner).name);
  }
  for (std::size_t i = 0; i < graph_.value_capacity(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    if (!graph_.alive(id) || graph_.value(id).origin == Origin::kCapture) continue;
    value_names_[i] = unique(graph_.value(id).name);
  }
}

void Writer::write_constant(const std::string& name, const Tensor& tensor,
                            onnx::GraphProto* proto) const {
  onnx::TensorProto* out = proto->add_initializer();
  if (tensor_writer_) {
    tensor_writer_(tensor, out);
  } else {
    tensor_to_proto(tensor, out);
  }
  out->set_name(name);
}

void Writer::write_node(NodeId id, onnx::NodeProto* proto) {
  const Node& node = graph_.node(id);
  proto->set_name(node.name);
  proto->set_op_type(node.op);
  if (!node.domain.empty()) proto->set_domain(node.domain);
  for (const ValueId v : node.inputs) proto->add_input(v.valid() ? name(v) : std::string());
  // ONNX Runtime ends the process for a Loop, and refuses an If or a Scan, without one of its
  // outputs.
  const bool has_bodies = !Graph::subgraphs(node).empty();
  for (const ValueId v : node.outputs) {
    if (v.valid()) {
      proto->add_output(name(v));
    } else {
      proto->add_output(has_bodies ? unique(node.name + "/unused") : "");
    }
  }
  const auto write_graph = [this](const Graph& body, onnx::GraphProto* out) {
    Writer(body, tensor_writer_, this).write(out);
  };
  for (const auto& [key, value] : node.attributes) {
    if (is_implied(node, key, value)) continue;
    attribute_to_proto(key, value, tensor_writer_, write_graph, proto->add_attribute());
  }
}

void Writer::write_outputs(onnx::GraphProto* proto) {
  std::set<ValueId> written;
  for (const ValueId v : graph_.outputs()) {
    std::string as = name(v);
    const bool outside = graph_.value(v).origin == Origin::kCapture;
    if (outside || !written.insert(v).second) {
      as = unique(graph_.value(v).name);
      onnx::NodeProto* identity = proto->add_node();
      identity->set_name(as + "/identity");
      identity->set_op_type("Identity");
      identity->add_input(name(v));
      identity->add_output(as);
    }
    describe(v, as, proto->add_output());
  }
}

void Writer::write(onnx::GraphProto* proto) {
  proto->set_name(graph_.name().empty() ? "graph" : graph_.name());
  for (const ValueId v : graph_.inputs()) describe(v, name(v), proto->add_input());
  if (outer_ == nullptr) {
    for (const Capture& c : graph_.captures()) {
      describe(c.inner, name(c.inner), proto->add_input());
    }
  }
  for (const auto& [id, tensor] : graph_.input_defaults()) {
    write_constant(name(id), tensor, proto);
  }
  for (const ValueId v : graph_.constants()) {
    write_constant(name(v), *graph_.constant(v), proto);
  }
  for (const NodeId id : graph_.topological_order()) {
    write_node(id, proto->add_node());
    for (const ValueId v : graph_.node(id).outputs) {
      if (!v.valid() || graph_.is_output(v)) continue;
      const Type& type = graph_.type(v);
      if (type.is_tensor() && (type.dtype == DType::kUndefined || !type.shape)) continue;
      describe(v, name(v), proto->add_value_info());
    }
  }
  write_outputs(proto);
}

// Whether the schema takes values of these types.
bool takes_types(const Graph& graph, const std::vector<ValueId>& values,
                 const std::vector<onnx::OpSchema::FormalParameter>& parameters) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].valid() || parameters.empty()) continue;
    onnx::TypeProto type;
    type_to_proto(graph.type(values[i]), &type);
    if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
        graph.type(values[i]).dtype == DType::kUndefined) {
      continue;
    }
    const NoForkScope scope;  // the library's table of types has a lock
    const auto& allowed = parameters[std::min(i, parameters.size() - 1)].GetTypes();
    if (!allowed.empty() && !allowed.contains(onnx::Utils::DataTypeUtils::ToType(type))) {
      return false;
    }
  }
  return true;
}

// Whether the node, as it is, is one of opset `version`.
bool is_valid_at(const Graph& graph, NodeId id, const onnx::NodeProto& proto,
                 std::int64_t version) {
  const Node& node = graph.node(id);
  const auto* schema =
      onnx::OpSchemaRegistry::Instance()->GetSchema(node.op, static_cast<int>(version), "");
  if (schema == nullptr || schema->deprecated()) return false;
  try {
    schema->Verify(proto);
  } catch (const onnx::checker::ValidationError&) {
    return false;  // an attribute or input that came later
  }
  return takes_types(graph, node.inputs, schema->inputs()) &&
         takes_types(graph, node.outputs, schema->outputs());
}

// What an attribute may say since a later opset than the attribute has been there: no schema tells.
struct LaterValue {
  std::string_view op, attribute, value;
  std::int64_t opset;
};
constexpr auto kLaterValues = std::to_array<LaterValue>({
    {"Pad", "mode", "wrap", 19},
    {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19},
});

// The oldest opset, from `least` on, at which this node of the standard domain means the same.
std::int64_t oldest_opset(const Graph& graph, NodeId id, std::int64_t least) {
  const Node& node = graph.node(id);
  const auto* registry = onnx::OpSchemaRegistry::Instance();
  const auto* schema = registry->GetSchema(node.op, static_cast<int>(kOnnxOpset), "");
  if (schema == nullptr) return kOnnxOpset;
  onnx::NodeProto proto;
  std::int64_t oldest = schema->since_version();
  // Opset 22 changed how many windows a pool of that kind has.
  if (node.attr_int("ceil_mode", 0) != 0) return std::max(oldest, least);
  if (oldest > least) node_to_proto(graph, id, &proto);
  std::int64_t floor = std::max(least, last_change(node.op));
  for (const LaterValue& later : kLaterValues) {
    if (node.op == later.op && node.attr_string(std::string(later.attribute), "") == later.value) {
      floor = std::max(floor, later.opset);
    }
  }
  while (oldest > floor) {
    const auto* older = registry->GetSchema(node.op, static_cast<int>(oldest) - 1, "");
    if (older == nullptr || !is_valid_at(graph, id, proto, oldest - 1)) break;
    oldest = std::max<std::int64_t>(older->since_version(), floor);
  }
  return std::max(oldest, least);
}

void add_opsets_in_use(const Graph& graph, std::map<std::string, std::int64_t>* opsets) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    std::int64_t& entry = (*opsets)[node.domain];
    if (node.domain.empty()) {
      entry = std::max(entry, oldest_opset(graph, id, entry));
    } else {
      entry = std::max(entry, opset_of(graph, node.domain));
    }
    for (const Graph* body : Graph::subgraphs(node)) add_opsets_in_use(*body, opsets);
  }
}

}  // namespace

void graph_to_proto(const Graph& graph, const TensorWriter& tensor_writer,
                    onnx::GraphProto* proto) {
  Writer(graph, tensor_writer, nullptr).write(proto);
}

void node_to_proto(const Graph& graph, NodeId id, onnx::NodeProto* proto) {
  const Node& node = graph.node(id);
  const TensorWriter inline_tensors;
  if (Graph::subgraphs(node).empty()) {  // no need to name every value of the graph
    proto->set_name(node.name);
    proto->set_op_type(node.op);
    proto->set_domain(node.domain);
    const auto name = [&](ValueId v) { return v.valid() ? graph.value(v).name : std::string(); };
    for (const ValueId v : node.inputs) proto->add_input(name(v));
    for (const ValueId v : node.outputs) proto->add_output(name(v));
    for (const auto& [key, value] : node.attributes) {
      if (is_implied(node, key, value)) continue;
      attribute_to_proto(key, value, inline_tensors, {}, proto->add_attribute());
    }
    return;
  }
  Writer(graph, inline_tensors, nullptr).write_node(id, proto);
}

std::map<std::string, std::int64_t> opsets_in_use(const Graph& graph) {
  // Older than this is not worth declaring: some consumers refuse it. One more would be too much:
  // ONNX Runtime's kernel for AveragePool of opset 19 takes five times as long as that of 18.
  constexpr std::int64_t kOldest = 18;
  std::map<std::string, std::int64_t> opsets;
  opsets[""] = kOldest;
  add_opsets_in_use(graph, &opsets);
  return opsets;
}

}  // namespace xrt
