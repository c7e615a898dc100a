// SPDX-License-Identifier: Apache-2.0
#include "engines/native/updates.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/rewrite.h"
#include "ir/updates.h"

namespace xrt::native {
namespace {

std::size_t at(NodeId id) { return static_cast<std::size_t>(id.index); }

bool is_one_number(const Type& type) {
  const auto dims = type.static_dims();
  return dims && element_count(*dims) == 1;
}

// Every operand is one number or as large as the result.
bool is_plain(const Graph& graph, const Node& node) {
  const Type& type = graph.type(node.outputs[0]);
  if (type.dtype != DType::kFloat32 || !type.is_static()) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    const Type& operand = graph.type(v);
    return operand.dtype == DType::kFloat32 &&
           (is_one_number(operand) || (operand.is_static() && operand.shape == type.shape));
  });
}

// Nodes that hand on values of one shape, as groups; each in topological order.
std::vector<std::vector<NodeId>> connected(const Graph& graph, const std::vector<bool>& nodes) {
  std::vector<std::size_t> group(graph.node_capacity());
  std::vector<std::vector<NodeId>> groups;
  for (const NodeId id : graph.topological_order()) {
    if (!nodes[at(id)]) continue;
    group[at(id)] = groups.size();
    groups.push_back({id});
    const Node& node = graph.node(id);
    for (const ValueId v : node.inputs) {
      const Value& value = graph.value(v);
      if (value.origin != Origin::kNode || !nodes[at(value.producer)]) continue;
      if (graph.type(v).shape != graph.type(node.outputs[0]).shape) continue;
      const std::size_t from = group[at(value.producer)];
      const std::size_t into = group[at(id)];
      if (from == into) continue;
      for (const NodeId moved : groups[from]) group[at(moved)] = into;
      groups[into].insert(groups[into].end(), groups[from].begin(), groups[from].end());
      groups[from].clear();
    }
  }
  std::vector<std::int32_t> place(graph.node_capacity());
  std::int32_t next = 0;
  for (const NodeId id : graph.topological_order()) place[at(id)] = next++;
  std::erase_if(groups, [](const auto& g) { return g.empty(); });
  for (auto& g : groups) {
    std::sort(g.begin(), g.end(), [&](NodeId a, NodeId b) { return place[at(a)] < place[at(b)]; });
  }
  return groups;
}

void replace_group(Graph& graph, const std::vector<NodeId>& nodes,
                   const std::vector<ValueId>& written) {
  std::vector<ValueId> inputs;
  std::map<std::int32_t, std::int64_t> made;  // value → number of the statement
  for (const NodeId id : nodes) {
    for (const ValueId v : graph.node(id).inputs) {
      const Value& value = graph.value(v);
      const bool inside = value.origin == Origin::kNode &&
                          std::find(nodes.begin(), nodes.end(), value.producer) != nodes.end();
      if (!inside && std::find(inputs.begin(), inputs.end(), v) == inputs.end()) {
        inputs.push_back(v);
      }
    }
  }
  const auto first = static_cast<std::int64_t>(inputs.size());
  std::vector<std::string> ops;
  std::vector<std::int64_t> operands;
  std::vector<std::int64_t> results;
  std::vector<ValueId> outputs;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    for (std::size_t i = 0; i < 2; ++i) {
      std::int64_t source = -1;
      if (i < node.inputs.size()) {
        const auto own = made.find(node.inputs[i].index);
        const auto outside = std::find(inputs.begin(), inputs.end(), node.inputs[i]);
        source = own != made.end() ? own->second : outside - inputs.begin();
      }
      operands.push_back(source);
    }
    made[node.outputs[0].index] = first + static_cast<std::int64_t>(ops.size());
    if (std::find(written.begin(), written.end(), node.outputs[0]) != written.end()) {
      results.push_back(static_cast<std::int64_t>(ops.size()));
      outputs.push_back(node.outputs[0]);
    }
    ops.push_back(node.op);
  }
  if (outputs.empty()) return;
  std::vector<std::string> names;
  for (const ValueId v : outputs) names.push_back(graph.value(v).name);
  const NodeId update = graph.add_node(
      "xrt.native", "Update", inputs, names,
      {{"ops", std::move(ops)}, {"operands", std::move(operands)}, {"results", std::move(results)}},
      graph.node(graph.value(outputs[0]).producer).name + "/update");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId now = graph.node(update).outputs[i];
    graph.set_type(now, Type(graph.type(outputs[i])));
    replace_value(graph, outputs[i], now);
  }
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) graph.remove_node(*it);
}

}  // namespace

void fuse_updates(Graph& graph, std::span<const InputOutputAlias> aliases) {
  if (aliases.empty()) return;
  std::vector<ValueId> written;
  for (const InputOutputAlias& alias : aliases) written.push_back(graph.outputs()[alias.output]);
  const std::vector<bool> nodes =
      update_nodes(graph, written, [&](const Node& node) { return is_plain(graph, node); });
  for (const auto& group : connected(graph, nodes)) replace_group(graph, group, written);
}

std::vector<Update> updates_of(const Graph& graph, std::span<const InputOutputAlias> aliases) {
  std::vector<Update> updates;
  for (const InputOutputAlias& alias : aliases) {
    updates.emplace_back(graph.inputs().at(alias.input), graph.outputs().at(alias.output));
  }
  return updates;
}

}  // namespace xrt::native
