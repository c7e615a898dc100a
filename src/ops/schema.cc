// SPDX-License-Identifier: Apache-2.0
#include "ops/schema.h"

#include <fmt/format.h>
#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/at_fork.h"
#include "ir/rewrite.h"
#include "onnx/opsets.h"
#include "onnx/proto.h"
#include "onnx/reader.h"
#include "onnx/upgrade.h"
#include "onnx/writer.h"
#include "ops/body_mends.h"
#include "ops/canonical.h"
#include "ops/inference_guards.h"
#include "ops/op_registry.h"
#include "ops/own_ops.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// `version` 0: the pinned opset for the standard domain, the newest for others.
const onnx::OpSchema* find_schema(std::string_view domain, std::string_view op,
                                  std::int64_t version) {
  register_own_ops();
  const std::string name(op);
  const std::string normal(normal_domain(domain));
  if (version == 0 && normal.empty()) version = kOnnxOpset;
  const auto* registry = onnx::OpSchemaRegistry::Instance();
  return version == 0 ? onnx::OpSchemaRegistry::Schema(name, normal)
                      : registry->GetSchema(name, static_cast<int>(version), normal);
}

OpInfo describe(const onnx::OpSchema& schema) {
  OpInfo info;
  info.domain = schema.domain();
  info.name = schema.Name();
  info.since_version = schema.since_version();
  info.deterministic =
      schema.GetNodeDeterminism() != onnx::OpSchema::NodeDeterminism::NonDeterministic;
  info.has_function = schema.HasFunction() || schema.HasContextDependentFunction();
  info.min_inputs = schema.min_input();
  info.max_inputs = schema.max_input();
  info.min_outputs = schema.min_output();
  info.max_outputs = schema.max_output();
  for (const auto& p : schema.inputs()) info.input_names.push_back(p.GetName());
  for (const auto& p : schema.outputs()) info.output_names.push_back(p.GetName());
  if (schema.doc() != nullptr) info.doc = schema.doc();
  return info;
}

bool captures_anything(const Node& node) {
  for (const Graph* body : Graph::subgraphs(node)) {
    if (!body->captures().empty()) return true;
  }
  return false;
}

void replace_name(onnx::GraphProto& graph, const std::string& from, const std::string& to) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == from) input = to;
    }
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) replace_name(*attribute.mutable_g(), from, to);
    }
  }
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) {
    if (output.name() == from) output.set_name(to);
  }
}

// Builders of function bodies take it for granted that a body's results are said to be tensors.
void say_that_results_are_tensors(onnx::NodeProto& node) {
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_g()) continue;
    for (onnx::ValueInfoProto& output : *attribute.mutable_g()->mutable_output()) {
      if (output.type().value_case() != onnx::TypeProto::VALUE_NOT_SET) continue;
      output.mutable_type()->mutable_tensor_type();
    }
  }
}

// Builders of function bodies paste the names of these constants into a text that they parse.
void name_constants_plainly(onnx::NodeProto& node) {
  int count = 0;
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_g()) continue;
    onnx::GraphProto& graph = *attribute.mutable_g();
    for (onnx::TensorProto& constant : *graph.mutable_initializer()) {
      const std::string plain = "xrt_constant_" + std::to_string(count++);
      replace_name(graph, constant.name(), plain);
      constant.set_name(plain);
    }
  }
}

// The function that defines the node, its opset import being the one its body was written for.
std::optional<onnx::FunctionProto> build_function(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const onnx::OpSchema* schema = schema_of(graph, node);
  if (schema == nullptr) return std::nullopt;
  // Range's body in the ONNX library breaks Loop's rules: its condition has one axis, the body's
  // input none, and ONNX's reference evaluator cannot run it.
  if (node.domain.empty() && node.op == "Range") return std::nullopt;
  // The standard ops of bodies that belong to other domains are today's.
  const auto with_standard_opset = [](onnx::FunctionProto f) {
    if (!opsets_of(f).contains("")) f.add_opset_import()->set_version(kOnnxOpset);
    return f;
  };
  const int pinned = node.domain.empty() ? static_cast<int>(kOnnxOpset) : schema->since_version();
  if (const onnx::FunctionProto* function = schema->GetFunction(pinned)) {
    onnx::FunctionProto found = *function;
    mend_body(graph, node, found);
    return with_standard_opset(std::move(found));
  }
  // The body would refer to captured values by names that it cannot see.
  if (!schema->HasContextDependentFunction() || captures_anything(node) ||
      !may_build_function(graph, node)) {
    return std::nullopt;
  }
  int written_for = 0;
  for (const int version : schema->context_dependent_function_opset_versions()) {
    if (version <= pinned) written_for = std::max(written_for, version);
  }
  if (written_for == 0) return std::nullopt;
  onnx::NodeProto proto;
  node_to_proto(graph, id, &proto);
  name_constants_plainly(proto);
  say_that_results_are_tensors(proto);
  std::vector<onnx::TypeProto> types(node.inputs.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (node.inputs[i].valid()) type_to_proto(graph.type(node.inputs[i]), &types[i]);
  }
  onnx::FunctionProto function;
  try {
    const NoForkScope scope;  // the library's table of types has a lock
    if (!schema->BuildContextDependentFunction(onnx::FunctionBodyBuildContextImpl(proto, types),
                                               function, written_for)) {
      return std::nullopt;
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("node '{}' ({}): its function body: {}",
                                                      node.name, node.qualified_op(), e.what()));
  }
  mend_body(graph, node, function);
  if (!Graph::subgraphs(node).empty()) {
    // The node's own sub-graphs, at the pinned opset, are part of the body now.
    for (auto& import : *function.mutable_opset_import()) {
      if (normal_domain(import.domain()).empty()) import.set_version(kOnnxOpset);
    }
  }
  return with_standard_opset(std::move(function));
}

// The call's attributes, and the schema's defaults for those it leaves out.
std::vector<onnx::AttributeProto> call_attributes(const Graph& graph, const Node& node) {
  std::vector<onnx::AttributeProto> attributes;
  for (const auto& [name, value] : missing_defaults(graph, node)) {
    attribute_to_proto(name, value, {}, {}, &attributes.emplace_back());
  }
  for (const auto& [name, value] : node.attributes) {
    if (std::holds_alternative<std::shared_ptr<Graph>>(value)) continue;  // is in the body
    attribute_to_proto(name, value, {}, {}, &attributes.emplace_back());
  }
  return attributes;
}

// `from` are values of the graph whose types those of the function's inputs are; `wanted` says
// which of its results are outputs.
Graph read_function(const Graph& graph, NodeId id, const onnx::FunctionProto& function,
                    const std::vector<ValueId>& from, const std::vector<bool>& wanted) {
  const Node& node = graph.node(id);
  Graph body(node.op);
  body.opsets() = graph.opsets();
  std::vector<ValueId> arguments;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const ValueId v = from[i];
    if (!v.valid()) {
      arguments.emplace_back();
      continue;
    }
    const std::string name = static_cast<int>(i) < function.input_size()
                                 ? function.input(static_cast<int>(i))
                                 : fmt::format("input_{}", i);
    arguments.push_back(body.add_input(name, graph.type(v)));
  }
  ReadOptions options;
  options.opsets = graph.opsets();
  options.upgrade = upgrade_node;
  options.check_schemas = false;
  const std::vector<ValueId> results =
      Reader(std::move(options))
          .inline_function(body, function, arguments, call_attributes(graph, node), "");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    ValueId result = i < results.size() ? results[i] : ValueId{};
    if (!result.valid()) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("node '{}' ({}): its function body does not make output {}",
                              node.name, node.qualified_op(), i));
    }
    if (body.is_output(result)) result = body.add_op("Identity", {result});
    body.add_output(result);
  }
  infer_shapes(body);
  if (finish_upgrade(body)) infer_shapes(body);
  if (canonicalize(body)) infer_shapes(body);
  return body;
}

Graph read_function(const Graph& graph, NodeId id, const onnx::FunctionProto& function) {
  const Node& node = graph.node(id);
  std::vector<bool> wanted;
  for (const ValueId v : node.outputs) wanted.push_back(v.valid());
  return read_function(graph, id, function, node.inputs, wanted);
}

}  // namespace

const onnx::OpSchema* schema_of(const Graph& graph, const Node& node) {
  return find_schema(node.domain, node.op, opset_of(graph, node.domain));
}

std::vector<std::pair<std::string, Attribute>> missing_defaults(const Graph& graph,
                                                                const Node& node) {
  std::vector<std::pair<std::string, Attribute>> defaults;
  const onnx::OpSchema* schema = schema_of(graph, node);
  if (schema == nullptr) return defaults;
  for (const auto& [name, attribute] : schema->attributes()) {
    if (attribute.default_value.type() == onnx::AttributeProto::UNDEFINED || node.has(name)) {
      continue;
    }
    defaults.emplace_back(
        name, attribute_from_proto(attribute.default_value, {}, "attribute '" + name + "'"));
  }
  return defaults;
}

std::optional<OpInfo> op_info(std::string_view domain, std::string_view op, std::int64_t version) {
  const onnx::OpSchema* schema = find_schema(domain, op, version);
  if (schema == nullptr || schema->deprecated()) return std::nullopt;
  return describe(*schema);
}

std::vector<OpInfo> all_ops(std::string_view domain) {
  register_own_ops();
  std::set<std::string> names;
  for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (schema.domain() == normal_domain(domain)) names.insert(schema.Name());
  }
  std::vector<OpInfo> ops;
  for (const std::string& name : names) {
    if (auto info = op_info(domain, name)) ops.push_back(std::move(*info));
  }
  return ops;
}

bool is_deterministic(const Node& node) {
  const onnx::OpSchema* schema = find_schema(node.domain, node.op, 0);
  if (schema == nullptr) return false;
  if (node.op == "Dropout" && node.inputs.size() > 2 && node.inputs[2].valid()) return false;
  return schema->GetNodeDeterminism() != onnx::OpSchema::NodeDeterminism::NonDeterministic;
}

bool has_function_body(const Graph& graph, NodeId node) {
  return build_function(graph, node).has_value();
}

std::optional<Graph> lowered_body(const Graph& graph, NodeId id, std::string_view engine) {
  const Node& node = graph.node(id);
  const RegisteredOp* op = registered_op(graph, node);
  if (op == nullptr) return std::nullopt;
  const auto found = op->lowerings.find(std::string(engine));
  if (found == op->lowerings.end()) return std::nullopt;
  onnx::FunctionProto function;
  function.ParseFromString(found->second);  // what register_op() wrote
  try {
    return read_function(graph, id, function);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("lowering of node '{}' ({}) for '{}': {}", node.name,
                                      node.qualified_op(), engine, e.what()));
  }
}

std::optional<Graph> gradient_body(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const RegisteredOp* op = registered_op(graph, node);
  if (op == nullptr || op->gradient.empty()) return std::nullopt;
  onnx::FunctionProto function;
  function.ParseFromString(op->gradient);  // what register_op() wrote
  const auto padded = [](std::vector<ValueId> values, std::size_t count) {
    values.resize(count);
    return values;
  };
  std::vector<ValueId> from = padded(node.inputs, op->definition.inputs.size());
  const std::vector<ValueId> outputs = padded(node.outputs, op->definition.outputs.size());
  for (int i = 0; i < 2; ++i) from.insert(from.end(), outputs.begin(), outputs.end());
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < op->differentiable.size(); ++i) {
    if (op->differentiable[i]) wanted.push_back(node.input(i).valid());
  }
  try {
    return read_function(graph, id, function, from, wanted);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("gradient of node '{}' ({}): {}", node.name,
                                      node.qualified_op(), e.what()));
  }
}

Graph function_body(const Graph& graph, NodeId node) {
  const auto function = build_function(graph, node);
  if (!function) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("node '{}' ({}) has no function body", graph.node(node).name,
                            graph.node(node).qualified_op()));
  }
  try {
    return read_function(graph, node, *function);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("function body of node '{}' ({}): {}", graph.node(node).name,
                                      graph.node(node).qualified_op(), e.what()));
  }
}

namespace {

bool expand(Graph& graph, const std::function<bool(const Graph&, NodeId)>& wanted) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    if (wanted(graph, id) && has_function_body(graph, id)) {
      const Graph body = function_body(graph, id);
      std::vector<ValueId> inputs = graph.node(id).inputs;
      std::erase_if(inputs, [](ValueId v) { return !v.valid(); });
      replace_node(graph, id, body, inputs);
      changed = true;
    } else {
      changed = edit_subgraphs(graph, id, [&](Graph& b) { return expand(b, wanted); }) || changed;
    }
  }
  return changed;
}

}  // namespace

bool expand_functions(Graph& graph, const std::function<bool(const Graph&, NodeId)>& wanted) {
  // Bodies nest a few levels deep (a loss → a log-softmax → a reduction).
  constexpr int kMaxRounds = 16;
  bool changed = false;
  for (int round = 0; round < kMaxRounds && expand(graph, wanted); ++round) {
    changed = true;
    infer_shapes(graph);
  }
  return changed;
}

}  // namespace xrt
