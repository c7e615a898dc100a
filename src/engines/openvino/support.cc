// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/support.h"

#include <optional>
#include <variant>

#include "engines/openvino/convert.h"
#include "engines/openvino/library.h"
#include "engines/openvino/rules.h"
#include "engines/openvino/types.h"

namespace xrt::openvino {
namespace {

// Constants up to this size are part of a signature and of its probe: axes, shapes, scalars.
constexpr std::size_t kSmallConstant = 256;

void append(std::string& out, const void* data, std::size_t bytes) {
  out.append(static_cast<const char*>(data), bytes);
}

void append_type(std::string& out, const Type& type) {
  out += static_cast<char>(type.dtype);
  if (!type.shape) {
    out += '*';
    return;
  }
  for (const Dim& dim : *type.shape) {
    out += dim.is_known() ? (dim.value() > 1 ? 'n' : static_cast<char>('0' + dim.value())) : '?';
  }
}

void append_tensor(std::string& out, const Tensor& tensor) {
  out += to_string(tensor.dims());
  out += static_cast<char>(tensor.dtype());
  if (tensor.dtype() == DType::kString) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) out += tensor.strings()[i] + '\0';
  } else {
    append(out, tensor.raw(), tensor.bytes());
  }
}

void append_attribute(std::string& out, const Attribute& attribute) {
  out += static_cast<char>(attribute.index());
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, float>) {
          append(out, &value, sizeof(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          out += value;
        } else if constexpr (std::is_same_v<T, Tensor>) {
          append_tensor(out, value);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                             std::is_same_v<T, std::vector<float>>) {
          append(out, value.data(), value.size() * sizeof(value[0]));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          for (const std::string& item : value) out += item + '\0';
        } else if constexpr (std::is_same_v<T, Type>) {
          out += to_string(value);
        }
        // Sub-graphs have no signature; lists of tensors, graphs and types are no attribute of an
        // op that the frontend reads.
      },
      attribute);
  out += '\1';
}

bool is_small_constant(const Graph& graph, ValueId id) {
  const Tensor* tensor = graph.constant(id);
  return tensor != nullptr && tensor->bytes() <= kSmallConstant;
}

std::string signature(const Graph& graph, const Node& node) {
  std::string out = node.qualified_op();
  out += '\1';
  for (const auto& [name, value] : node.attributes) {
    out += name;
    out += '=';
    append_attribute(out, value);
  }
  for (const ValueId id : node.inputs) {
    out += '|';
    if (!id.valid()) continue;
    if (is_small_constant(graph, id)) {
      append_tensor(out, *graph.constant(id));
    } else {
      out += graph.constant(id) != nullptr ? 'c' : 'v';
      append_type(out, graph.type(id));
    }
  }
  for (const ValueId id : node.outputs) {
    out += '>';
    if (id.valid()) append_type(out, graph.type(id));
  }
  return out;
}

std::optional<std::string> subgraph_refusal(const Node& node) {
  for (const Graph* body : Graph::subgraphs(node)) {
    for (const NodeId id : body->nodes()) {
      const Node& inner = body->node(id);
      std::optional<std::string> reason = refusal(*body, inner);
      if (!reason) reason = subgraph_refusal(inner);
      if (reason) return "its sub-graph has '" + inner.name + "' (" + inner.op + "): " + *reason;
    }
  }
  return std::nullopt;
}

}  // namespace

Support SupportOracle::check(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (auto reason = refusal(graph, node)) return Support::no(*reason);
  Answer answer;
  if (!Graph::subgraphs(node).empty()) {
    if (auto reason = subgraph_refusal(node)) return Support::no(*reason);
    answer = probe_with_subgraphs(graph, id);
  } else {
    const std::string key = signature(graph, node);
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = answers_.find(key); found != answers_.end()) {
        return found->second.ok ? Support::yes() : Support::no(found->second.reason);
      }
    }
    answer = probe(graph, node);
    const std::scoped_lock lock(mutex_);
    answers_.emplace(key, answer);
  }
  return answer.ok ? Support::yes() : Support::no(answer.reason);
}

// A graph of this node alone; constants that are not small become inputs.
SupportOracle::Answer SupportOracle::probe(const Graph& graph, const Node& node) {
  Graph alone("probe");
  alone.opsets() = graph.opsets();
  std::vector<ValueId> inputs;
  std::map<ValueId, ValueId> made;
  for (const ValueId id : node.inputs) {
    if (!id.valid()) {
      inputs.push_back({});
      continue;
    }
    if (const auto found = made.find(id); found != made.end()) {
      inputs.push_back(found->second);
      continue;
    }
    const Value& value = graph.value(id);
    const ValueId copy = is_small_constant(graph, id) ? alone.add_constant(value.name, value.constant)
                                                      : alone.add_input(value.name, value.type);
    made[id] = copy;
    inputs.push_back(copy);
  }
  std::vector<std::string> names;
  for (const ValueId id : node.outputs) {
    names.push_back(id.valid() ? graph.value(id).name : std::string());
  }
  const NodeId id = alone.add_node(node.domain, node.op, inputs, names, node.attributes, node.name,
                                   /*omit_empty=*/true);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = alone.node(id).output(i);
    if (!output.valid()) continue;
    alone.set_type(output, graph.type(node.outputs[i]));
    alone.add_output(output);
  }
  return try_model(alone, node);
}

// A copy of the graph with all other nodes cut off: what sub-graphs capture stays in place.
SupportOracle::Answer SupportOracle::probe_with_subgraphs(const Graph& graph, NodeId id) {
  Graph alone(graph);
  for (const ValueId value : alone.dependencies(id)) {
    if (alone.value(value).origin != Origin::kNode) continue;
    const ValueId input = alone.add_input(alone.value(value).name, alone.type(value));
    alone.replace_uses(value, input);
  }
  ValueId kept;
  for (const ValueId output : alone.node(id).outputs) {
    if (output.valid()) kept = output;
  }
  for (std::size_t i = 0; i < alone.outputs().size(); ++i) alone.replace_output(i, kept);
  for (const ValueId output : alone.node(id).outputs) {
    if (output.valid() && !alone.is_output(output)) alone.add_output(output);
  }
  std::vector<NodeId> order = alone.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (*it != id) alone.remove_node(*it);
  }
  return try_model(alone, graph.node(id));
}

SupportOracle::Answer SupportOracle::try_model(const Graph& graph, const Node&) {
  try {
    const std::shared_ptr<ov::Model> model = convert(graph);
    const std::vector<ValueId> outputs = computed_outputs(graph);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Type& wanted = graph.type(outputs[i]);
      const ov::Output<ov::Node> port = model->output(i);
      if (port.get_element_type() != to_element_type(wanted.dtype)) {
        return {false, "OpenVINO gives its output " + std::to_string(i) + " the type " +
                           port.get_element_type().get_type_name() + " instead of " +
                           std::string(to_string(wanted.dtype))};
      }
      if (!port.get_partial_shape().compatible(to_partial_shape(wanted))) {
        return {false, "OpenVINO gives its output " + std::to_string(i) + " the shape " +
                           port.get_partial_shape().to_string() + " instead of " +
                           to_string(wanted)};
      }
    }
    core_->compile_model(model, "CPU");
    return {true, {}};
  } catch (const std::exception& error) {
    return {false, "OpenVINO cannot: " + readable(error.what())};
  }
}

}  // namespace xrt::openvino
