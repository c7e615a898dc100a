// SPDX-License-Identifier: Apache-2.0
#include "ir/extract.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

namespace xrt {

void GraphCopier::constant(ValueId old) {
  const Value& value = from_.value(old);
  set(old, to_.add_constant(value.name, value.constant));
}

void GraphCopier::node(NodeId id) {
  const Node& old = from_.node(id);
  std::vector<ValueId> inputs;
  inputs.reserve(old.inputs.size());
  for (const ValueId v : old.inputs) inputs.push_back(get(v));
  std::vector<std::string> names;
  for (const ValueId v : old.outputs) {
    names.push_back(v.valid() ? from_.value(v).name : std::string{});
  }
  const NodeId made = to_.add_node(old.domain, old.op, std::move(inputs), names,
                                   copy_attributes(old), old.name, /*omit_empty=*/true);
  for (std::size_t i = 0; i < old.outputs.size(); ++i) {
    if (!old.outputs[i].valid()) continue;
    const ValueId now = to_.node(made).outputs[i];
    to_.set_type(now, from_.type(old.outputs[i]));
    set(old.outputs[i], now);
  }
}

Attributes GraphCopier::copy_attributes(const Node& old) const {
  const auto copy_body = [this](const Graph& body) {
    auto copy = std::make_shared<Graph>(body);
    copy->remap_captures([this](ValueId outer) { return get(outer); });
    return copy;
  };
  Attributes attributes = old.attributes;
  for (auto& [name, attribute] : attributes) {
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
      *one = copy_body(**one);
    } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
      for (auto& body : *many) body = copy_body(*body);
    }
  }
  return attributes;
}

Extract extract(const Graph& graph, const std::vector<NodeId>& nodes, std::string name) {
  Extract result{Graph(std::move(name)), {}, {}};
  Graph& out = result.graph;
  out.opsets() = graph.opsets();
  std::vector<bool> inside(graph.node_capacity(), false);
  for (const NodeId id : nodes) inside[static_cast<std::size_t>(id.index)] = true;
  GraphCopier copier(graph, out);
  for (const NodeId id : nodes) {
    for (const ValueId v : graph.dependencies(id)) {
      const Value& value = graph.value(v);
      const bool local =
          value.origin == Origin::kNode && inside[static_cast<std::size_t>(value.producer.index)];
      if (local || copier.has(v)) continue;
      if (value.origin == Origin::kConstant) {
        copier.constant(v);
      } else {
        copier.set(v, out.add_input(value.name, value.type));
        result.inputs.push_back(v);
      }
    }
  }
  for (const NodeId id : nodes) copier.node(id);
  std::vector<bool> wanted(graph.value_capacity(), false);
  for (const ValueId v : graph.outputs()) wanted[static_cast<std::size_t>(v.index)] = true;
  for (const NodeId id : nodes) {
    for (const ValueId v : graph.node(id).outputs) {
      if (!v.valid()) continue;
      const auto& uses = graph.uses(v);
      const bool read_outside = std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
        return !inside[static_cast<std::size_t>(use.node.index)];
      });
      if (!read_outside && !wanted[static_cast<std::size_t>(v.index)]) continue;
      out.add_output(copier.get(v));
      result.outputs.push_back(v);
    }
  }
  return result;
}

Graph detach(const Graph& body, std::string name) {
  Graph out(std::move(name));
  out.opsets() = body.opsets();
  GraphCopier copier(body, out);
  const auto add_input = [&](ValueId v) {
    const Value& value = body.value(v);
    copier.set(v, out.add_input(value.name, value.type));
  };
  for (const ValueId v : body.inputs()) add_input(v);
  for (const Capture& c : body.captures()) add_input(c.inner);
  for (const ValueId v : body.constants()) copier.constant(v);
  for (const NodeId id : body.topological_order()) copier.node(id);
  for (const ValueId v : body.outputs()) out.add_output(copier.get(v));
  return out;
}

}  // namespace xrt
