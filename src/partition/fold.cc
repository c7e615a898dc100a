// SPDX-License-Identifier: Apache-2.0
#include "partition/fold.h"

#include <algorithm>
#include <map>
#include <utility>

namespace xrt {
namespace {

// Copies nodes into another graph, keeping a map from old values to new ones.
class Copier {
 public:
  Copier(const Graph& from, Graph& to) : from_(from), to_(to), map_(from.value_capacity()) {}

  bool has(ValueId v) const { return map_[static_cast<std::size_t>(v.index)].valid(); }
  ValueId get(ValueId v) const { return v.valid() ? map_[static_cast<std::size_t>(v.index)] : v; }
  void set(ValueId old, ValueId now) { map_[static_cast<std::size_t>(old.index)] = now; }

  void constant(ValueId old) {
    const Value& value = from_.value(old);
    set(old, to_.add_constant(value.name, value.constant));
  }

  // Every dependency must be mapped already.
  void node(NodeId id) {
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

 private:
  // Bodies are copied, and read the new graph's values where they read the old one's.
  Attributes copy_attributes(const Node& old) const {
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

  std::shared_ptr<Graph> copy_body(const Graph& body) const {
    auto copy = std::make_shared<Graph>(body);
    copy->remap_captures([this](ValueId outer) { return get(outer); });
    return copy;
  }

  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> map_;
};

}  // namespace

Extract extract(const Graph& graph, const std::vector<NodeId>& nodes, std::string name) {
  Extract result{Graph(std::move(name)), {}, {}};
  Graph& out = result.graph;
  out.opsets() = graph.opsets();
  std::vector<bool> inside(graph.node_capacity(), false);
  for (const NodeId id : nodes) inside[static_cast<std::size_t>(id.index)] = true;
  Copier copier(graph, out);
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
  Copier copier(body, out);
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

Graph fold(const Graph& graph, const Partition& partition,
           const std::vector<std::string>& engines) {
  Graph folded(graph.name());
  folded.opsets() = graph.opsets();
  folded.metadata() = graph.metadata();
  Copier copier(graph, folded);
  for (const ValueId v : graph.inputs()) {
    const Value& value = graph.value(v);
    copier.set(v, folded.add_input(value.name, value.type));
  }
  for (const Capture& c : graph.captures()) {
    const Value& value = graph.value(c.inner);
    copier.set(c.inner, folded.add_capture(c.outer, value.name, value.type));
  }
  for (const auto& [id, tensor] : graph.input_defaults()) {
    folded.input_defaults().emplace(copier.get(id), tensor);
  }
  std::map<std::size_t, std::size_t> number;  // per engine
  for (const Cluster& cluster : partition.clusters) {
    const std::string name =
        engines[cluster.engine] + "_" + std::to_string(number[cluster.engine]++);
    Extract part = extract(graph, cluster.nodes, name);
    std::vector<ValueId> inputs;
    for (const ValueId v : part.inputs) inputs.push_back(copier.get(v));
    std::vector<std::string> names;
    for (const ValueId v : part.outputs) names.push_back(graph.value(v).name);
    Attributes attributes;
    attributes["engine"] = engines[cluster.engine];
    attributes["name"] = name;
    attributes["function"] = std::make_shared<Graph>(std::move(part.graph));
    const NodeId launch = folded.add_node(kXrtDomain, kLaunchOp, std::move(inputs), names,
                                          std::move(attributes), name, /*omit_empty=*/true);
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      const ValueId now = folded.node(launch).outputs[i];
      folded.set_type(now, graph.type(part.outputs[i]));
      copier.set(part.outputs[i], now);
    }
  }
  for (const ValueId v : graph.outputs()) {
    if (!copier.has(v)) copier.constant(v);  // a constant that is an output
    folded.add_output(copier.get(v));
  }
  return folded;
}

}  // namespace xrt
