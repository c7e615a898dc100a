// SPDX-License-Identifier: Apache-2.0
#include "ir/updates.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace xrt {
namespace {

constexpr std::array<std::string_view, 8> kOps = {"Add", "Sub", "Mul",  "Div",
                                                  "Max", "Min", "Sqrt", "Neg"};

std::size_t at(NodeId id) { return static_cast<std::size_t>(id.index); }

// Ops whose result may be the memory of their first input.
bool is_view(const Node& node) {
  constexpr std::array<std::string_view, 5> kViews = {"Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                                      "Identity"};
  return node.domain.empty() && std::find(kViews.begin(), kViews.end(), node.op) != kViews.end();
}

// Who reads the value or a view of it.
void collect_readers(const Graph& graph, ValueId value, std::vector<NodeId>& readers) {
  for (const Use& use : graph.uses(value)) {
    const Node& node = graph.node(use.node);
    readers.push_back(use.node);
    if (is_view(node) && node.inputs[0] == value) {
      collect_readers(graph, node.outputs[0], readers);
    }
  }
}

// The node that writes the update, where nobody waits for it.
NodeId last_writer(const Graph& graph, const Update& update) {
  const Value& result = graph.value(update.second);
  if (result.origin != Origin::kNode) return {};
  const std::vector<ValueId>& outputs = graph.node(result.producer).outputs;
  const bool waited_for = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) {
    return v.valid() && !graph.uses(v).empty();
  });
  return waited_for ? NodeId{} : result.producer;
}

}  // namespace

std::vector<UpdateWait> update_waits(const Graph& graph, std::span<const Update> updates) {
  std::vector<bool> writes(graph.node_capacity());
  for (const Update& update : updates) {
    if (const NodeId id = last_writer(graph, update); id.valid()) writes[at(id)] = true;
  }
  std::vector<UpdateWait> waits;
  for (const Update& update : updates) {
    const NodeId writer = last_writer(graph, update);
    if (!writer.valid()) continue;
    std::vector<NodeId> readers;
    collect_readers(graph, update.first, readers);
    for (const NodeId reader : readers) {
      // Two writers that read each other's variable cannot both wait.
      if (!writes[at(reader)]) waits.push_back({reader, writer});
    }
  }
  return waits;
}

std::vector<NodeId> update_order(const Graph& graph, std::span<const Update> updates) {
  std::vector<NodeId> order = graph.topological_order();
  if (updates.empty()) return order;
  // By node: the place after which it comes. A writer comes right after what it waits for.
  constexpr std::int32_t kNowhere = -1;
  std::vector<std::int32_t> place(graph.node_capacity());
  for (std::size_t i = 0; i < order.size(); ++i) place[at(order[i])] = static_cast<std::int32_t>(i);
  std::vector<std::int32_t> after(graph.node_capacity(), kNowhere);
  std::vector<bool> writes(graph.node_capacity());
  for (const Update& update : updates) {
    const NodeId writer = last_writer(graph, update);
    if (!writer.valid()) continue;
    writes[at(writer)] = true;
    for (const ValueId v : graph.dependencies(writer)) {
      const Value& value = graph.value(v);
      if (value.origin != Origin::kNode) continue;
      after[at(writer)] = std::max(after[at(writer)], place[at(value.producer)]);
    }
  }
  for (const UpdateWait& wait : update_waits(graph, updates)) {
    after[at(wait.writer)] = std::max(after[at(wait.writer)], place[at(wait.reader)]);
  }
  std::stable_sort(order.begin(), order.end(), [&](NodeId a, NodeId b) {
    const auto key = [&](NodeId id) {
      return writes[at(id)] ? std::pair(after[at(id)], 1) : std::pair(place[at(id)], 0);
    };
    return key(a) < key(b);
  });
  return order;
}

std::vector<bool> update_nodes(const Graph& graph, std::span<const ValueId> written,
                               const std::function<bool(const Node&)>& accept) {
  std::vector<bool> found(graph.node_capacity());
  const std::vector<NodeId> order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    if (!node.domain.empty() || node.outputs.size() != 1) continue;
    if (std::find(kOps.begin(), kOps.end(), node.op) == kOps.end()) continue;
    const bool unary = node.op == "Sqrt" || node.op == "Neg";
    if (node.inputs.size() != (unary ? 1U : 2U)) continue;
    const ValueId result = node.outputs[0];
    const bool is_written = std::find(written.begin(), written.end(), result) != written.end();
    if (graph.is_output(result) && !is_written) continue;
    const std::vector<Use>& uses = graph.uses(result);
    if (uses.empty() && !is_written) continue;
    const bool inside = std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return found[static_cast<std::size_t>(use.node.index)];
    });
    if (!inside || (accept && !accept(node))) continue;
    found[static_cast<std::size_t>(it->index)] = true;
  }
  return found;
}

}  // namespace xrt
