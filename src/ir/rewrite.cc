// SPDX-License-Identifier: Apache-2.0
#include "ir/rewrite.h"

#include <memory>
#include <utility>

#include "ir/type_merge.h"
#include "xrt/error.h"

namespace xrt {

std::vector<ValueId> splice(Graph& graph, const Graph& body, std::span<const ValueId> inputs,
                            const std::string& prefix) {
  if (inputs.size() != body.inputs().size()) {
    throw Error(ErrorCode::kInternal, "splice: " + std::to_string(inputs.size()) +
                                          " values for the inputs of graph '" + body.name() + "'");
  }
  std::vector<ValueId> moved(body.value_capacity());
  const auto now = [&](ValueId v) {
    return v.valid() ? moved[static_cast<std::size_t>(v.index)] : v;
  };
  const auto set = [&](ValueId from, ValueId to) {
    moved[static_cast<std::size_t>(from.index)] = to;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) set(body.inputs()[i], inputs[i]);
  for (const Capture& c : body.captures()) set(c.inner, c.outer);
  for (const ValueId v : body.constants()) {
    set(v, graph.add_constant(prefix + body.value(v).name, *body.constant(v)));
  }
  const auto move_body = [&](const Graph& inner) {
    auto copy = std::make_shared<Graph>(inner);
    copy->remap_captures(now);
    return copy;
  };
  for (const NodeId id : body.topological_order()) {
    const Node& node = body.node(id);
    std::vector<ValueId> node_inputs;
    for (const ValueId v : node.inputs) node_inputs.push_back(now(v));
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) {
      names.push_back(v.valid() ? prefix + body.value(v).name : std::string());
    }
    Attributes attributes = node.attributes;
    for (auto& [name, attribute] : attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        *one = move_body(**one);
      } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
        for (auto& inner : *many) inner = move_body(*inner);
      }
    }
    const NodeId copy =
        graph.add_node(node.domain, node.op, std::move(node_inputs), names, std::move(attributes),
                       prefix + node.name, /*omit_empty=*/true);
    const std::vector<ValueId> made = graph.node(copy).outputs;
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i].valid()) continue;
      set(node.outputs[i], made[i]);
      graph.set_type(made[i], body.type(node.outputs[i]));
    }
  }
  std::vector<ValueId> outputs;
  for (const ValueId v : body.outputs()) outputs.push_back(now(v));
  return outputs;
}

bool can_replace_value(const Graph& graph, ValueId old, ValueId by) {
  return !graph.is_output(old) || (graph.value(by).origin == Origin::kNode && !graph.is_output(by));
}

void replace_value(Graph& graph, ValueId old, ValueId by) {
  // What was declared of the one holds for the other.
  if (graph.value(by).origin == Origin::kNode) {
    if (const auto type = merge_types(graph.type(old), graph.type(by))) graph.set_type(by, *type);
  }
  if (!graph.is_output(old)) {
    graph.replace_uses(old, by);
    return;
  }
  const std::string name = graph.value(old).name;
  std::string free = name + "_replaced";
  for (int i = 1; graph.find_value(free); ++i) free = name + "_replaced_" + std::to_string(i);
  const bool direct = can_replace_value(graph, old, by);
  graph.set_value_name(old, free);
  if (direct) {
    graph.set_value_name(by, name);
    graph.replace_uses(old, by);
    return;
  }
  const NodeId identity = graph.add_node("", "Identity", {by}, {name}, {}, name);
  const ValueId out = graph.node(identity).outputs[0];
  graph.set_type(out, graph.type(by));
  graph.replace_uses(old, out);
}

void replace_node(Graph& graph, NodeId node, const Graph& body, std::span<const ValueId> inputs) {
  std::vector<ValueId> old = graph.node(node).outputs;
  std::erase_if(old, [](ValueId v) { return !v.valid(); });
  const std::vector<ValueId> made = splice(graph, body, inputs, graph.node(node).name + "/");
  if (made.size() < old.size()) {
    throw Error(ErrorCode::kInternal, "graph '" + body.name() + "' has too few outputs for node '" +
                                          graph.node(node).name + "'");
  }
  for (std::size_t i = 0; i < old.size(); ++i) {
    replace_value(graph, old[i], made[i]);
  }
  graph.remove_node(node);
}

}  // namespace xrt
