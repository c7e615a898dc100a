// SPDX-License-Identifier: Apache-2.0
#include "autodiff/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "autodiff/rule.h"
#include "ops/op_facts.h"
#include "ops/schema.h"
#include "xrt/error.h"

namespace xrt::autodiff {
namespace {

std::size_t at(NodeId id) { return static_cast<std::size_t>(id.index); }
std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }

class Recomputation {
 public:
  Recomputation(Graph& graph, ValueId loss, ValueId seed, std::span<const ValueId> variables,
                const RecomputeOptions& options)
      : graph_(graph), options_(options), order_(graph.topological_order()) {
    place_.resize(graph.node_capacity());
    for (std::size_t i = 0; i < order_.size(); ++i) place_[at(order_[i])] = i;
    find_backward(seed);
    find_varying(variables);
    cut(loss);
    find_kept();
  }

  std::size_t run() {
    std::size_t made = 0;
    for (std::size_t s = 0; s + 1 < segments_; ++s) made += recompute_segment(s);
    return made;
  }

 private:
  void find_backward(ValueId seed) {
    std::vector<bool> reached(graph_.value_capacity());
    reached[at(seed)] = true;
    backward_.resize(graph_.node_capacity());
    for (const NodeId id : order_) {
      for (const ValueId v : graph_.dependencies(id)) {
        if (reached[at(v)]) backward_[at(id)] = true;
      }
      if (!backward_[at(id)]) continue;
      for (const ValueId v : graph_.node(id).outputs) {
        if (v.valid()) reached[at(v)] = true;
      }
    }
  }

  // What depends on the batch; the rest (weights, and what is made of them alone) stays.
  void find_varying(std::span<const ValueId> variables) {
    varies_.resize(graph_.value_capacity());
    for (const ValueId v : graph_.inputs()) {
      varies_[at(v)] = std::find(variables.begin(), variables.end(), v) == variables.end();
    }
    for (const NodeId id : order_) {
      bool any = false;
      for (const ValueId v : graph_.dependencies(id)) any = any || varies_[at(v)];
      for (const ValueId v : graph_.node(id).outputs) {
        if (v.valid()) varies_[at(v)] = any;
      }
    }
  }

  double bytes(ValueId v) const {
    const Type& type = graph_.type(v);
    const auto dims = type.is_tensor() ? type.static_dims() : std::nullopt;
    return dims && type.dtype != DType::kString ? static_cast<double>(byte_count(type.dtype, *dims))
                                                : 0;
  }

  // Nodes that the loss depends on, in order.
  std::vector<NodeId> forward_nodes(ValueId loss) const {
    std::vector<bool> wanted(graph_.node_capacity());
    std::vector<ValueId> stack{loss};
    while (!stack.empty()) {
      const Value& value = graph_.value(stack.back());
      stack.pop_back();
      if (value.origin != Origin::kNode || wanted[at(value.producer)]) continue;
      wanted[at(value.producer)] = true;
      for (const ValueId v : graph_.dependencies(value.producer)) stack.push_back(v);
    }
    std::vector<NodeId> nodes;
    for (const NodeId id : order_) {
      if (wanted[at(id)]) nodes.push_back(id);
    }
    return nodes;
  }

  bool is_cheap(const Node& node) const { return op_facts(node).cheap; }

  bool is_read_by_backward(ValueId v) const {
    const std::vector<Use>& uses = graph_.uses(v);
    return std::any_of(uses.begin(), uses.end(),
                       [&](const Use& use) { return is_backward(use.node); });
  }

  bool is_backward(NodeId id) const { return at(id) < backward_.size() && backward_[at(id)]; }

  // Gives every node that is no gradient's the number of its segment.
  void cut(ValueId loss) {
    const std::vector<NodeId> nodes = forward_nodes(loss);
    std::vector<bool> ends(nodes.size());  // a segment ends behind this node
    if (options_.kind == "cheap") {
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        bool batch = false;
        for (const ValueId v : graph_.node(nodes[i]).outputs) {
          batch = batch || (v.valid() && varies_[at(v)]);
        }
        ends[i] = batch && !is_cheap(graph_.node(nodes[i]));
      }
    } else {
      choose_ends(nodes, ends);
    }
    segment_.assign(graph_.node_capacity(), 0);
    std::vector<bool> numbered(graph_.node_capacity());
    std::size_t segment = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      segment_[at(nodes[i])] = segment;
      numbered[at(nodes[i])] = true;
      if (ends[i]) ++segment;
    }
    segments_ = segment + 1;
    // What only gradients read (masks, transposes) belongs to the last that it reads from.
    for (const NodeId id : order_) {
      if (numbered[at(id)]) continue;
      for (const ValueId v : graph_.dependencies(id)) {
        const Value& value = graph_.value(v);
        if (value.origin != Origin::kNode) continue;
        segment_[at(id)] = std::max(segment_[at(id)], segment_[at(value.producer)]);
      }
    }
  }

  // Near even parts of what the backward pass would find kept, the places that the fewest bytes
  // cross.
  void choose_ends(const std::vector<NodeId>& nodes, std::vector<bool>& ends) const {
    std::vector<double> crossing(nodes.size() + 1);
    std::vector<double> kept(nodes.size());
    std::vector<std::size_t> index(graph_.node_capacity(), nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) index[at(nodes[i])] = i;
    double total = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const ValueId v : graph_.node(nodes[i]).outputs) {
        if (!v.valid() || !varies_[at(v)]) continue;
        total += bytes(v);
        std::size_t last = i;
        for (const Use& use : graph_.uses(v)) {
          if (index[at(use.node)] < nodes.size()) last = std::max(last, index[at(use.node)]);
        }
        for (std::size_t k = i; k < last; ++k) crossing[k] += bytes(v);
      }
      kept[i] = total;
    }
    const double part = total / static_cast<double>(options_.segments);
    for (std::int64_t s = 1; s < options_.segments; ++s) {
      const double middle = part * static_cast<double>(s);
      std::size_t best = nodes.size();
      for (std::size_t i = 0; i + 1 < nodes.size(); ++i) {
        if (kept[i] < middle - part / 2 || kept[i] >= middle + part / 2) continue;
        if (best == nodes.size() || crossing[i] < crossing[best]) best = i;
      }
      if (best < nodes.size()) ends[best] = true;
    }
  }

  void find_kept() {
    kept_.assign(graph_.value_capacity(), false);
    for (const ValueId v : graph_.outputs()) kept_[at(v)] = true;
    for (const NodeId id : order_) {
      if (backward_[at(id)]) continue;
      for (const ValueId v : graph_.node(id).outputs) {
        if (!v.valid()) continue;
        for (const Use& use : graph_.uses(v)) {
          if (!backward_[at(use.node)] && segment_[at(use.node)] > segment_[at(id)]) {
            kept_[at(v)] = true;
          }
        }
      }
    }
  }

  // Whether the value is made again where its segment is.
  bool is_made_again(ValueId v, std::size_t segment) const {
    const Value& value = graph_.value(v);
    if (value.origin != Origin::kNode || kept_[at(v)] || !varies_[at(v)]) return false;
    const NodeId id = value.producer;
    const Node& node = graph_.node(id);
    if (backward_[at(id)] || segment_[at(id)] != segment || !Graph::subgraphs(node).empty() ||
        (!node.domain.empty() && node.domain != kOwnDomain) || !is_deterministic(node)) {
      return false;
    }
    return options_.kind != "cheap" || is_cheap(node);
  }

  std::size_t recompute_segment(std::size_t segment) {
    std::vector<ValueId> wanted;
    double gain = 0;
    for (const NodeId id : order_) {
      if (backward_[at(id)] || segment_[at(id)] != segment) continue;
      for (const ValueId v : graph_.node(id).outputs) {
        if (!v.valid() || !is_made_again(v, segment) || !is_read_by_backward(v)) continue;
        wanted.push_back(v);
        gain += bytes(v);
      }
    }
    std::set<std::size_t> places;  // of nodes to be repeated
    std::set<ValueId> leaves;
    std::vector<ValueId> stack = wanted;
    while (!stack.empty()) {
      const ValueId v = stack.back();
      stack.pop_back();
      const NodeId id = graph_.value(v).producer;
      if (!places.insert(place_[at(id)]).second) continue;
      for (const ValueId input : graph_.dependencies(id)) {
        if (!varies_[at(input)]) continue;
        if (is_made_again(input, segment)) {
          stack.push_back(input);
        } else {
          leaves.insert(input);
        }
      }
    }
    for (const ValueId v : leaves) {
      if (!is_read_by_backward(v)) gain -= bytes(v);
    }
    const ValueId token = gain > 0 ? first_gradient(wanted) : ValueId{};
    if (!token.valid()) return 0;
    repeat(places, leaves, token);
    return places.size();
  }

  // A gradient that the first reader of these values waits for anyway.
  ValueId first_gradient(const std::vector<ValueId>& values) const {
    NodeId first;
    for (const ValueId v : values) {
      for (const Use& use : graph_.uses(v)) {
        if (!is_backward(use.node)) continue;
        if (!first.valid() || place_[at(use.node)] < place_[at(first)]) first = use.node;
      }
    }
    for (const ValueId v : graph_.dependencies(first)) {
      const Value& value = graph_.value(v);
      if (value.origin == Origin::kNode && is_backward(value.producer)) return v;
    }
    return {};
  }

  void repeat(const std::set<std::size_t>& places, const std::set<ValueId>& leaves, ValueId token) {
    std::map<ValueId, ValueId> now;
    for (const ValueId v : leaves) {
      const NodeId after =
          graph_.add_node(kOwnDomain, kAfterOp, {v, token}, {graph_.value(v).name + "/again"}, {});
      now[v] = graph_.node(after).outputs[0];
      graph_.set_type(now[v], Type(graph_.type(v)));
    }
    for (const std::size_t place : places) {
      const Node node = graph_.node(order_[place]);
      std::vector<ValueId> inputs = node.inputs;
      for (ValueId& v : inputs) {
        if (const auto found = now.find(v); found != now.end()) v = found->second;
      }
      std::vector<std::string> names;
      for (const ValueId v : node.outputs) {
        names.push_back(v.valid() ? graph_.value(v).name + "/again" : "");
      }
      const NodeId again = graph_.add_node(node.domain, node.op, std::move(inputs), names,
                                           node.attributes, node.name + "/again",
                                           /*omit_empty=*/true);
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const ValueId old = node.outputs[k];
        if (!old.valid()) continue;
        const ValueId made = graph_.node(again).outputs[k];
        graph_.set_type(made, Type(graph_.type(old)));
        now[old] = made;
        if (!is_made_again(old, segment_[at(order_[place])])) continue;
        const std::vector<Use> uses = graph_.uses(old);
        for (const Use& use : uses) {
          if (is_backward(use.node) && use.index >= 0) {
            graph_.set_input(use.node, static_cast<std::size_t>(use.index), made);
          }
        }
      }
    }
  }

  Graph& graph_;
  const RecomputeOptions& options_;
  const std::vector<NodeId> order_;
  std::vector<std::size_t> place_;    // by node: in order_
  std::vector<bool> backward_;        // by node: depends on the seed
  std::vector<bool> varies_;          // by value: depends on the batch
  std::vector<std::size_t> segment_;  // by node
  std::vector<bool> kept_;            // by value: read by later segments, or an output
  std::size_t segments_ = 1;
};

}  // namespace

std::size_t recompute(Graph& graph, ValueId loss, ValueId seed, std::span<const ValueId> variables,
                      const RecomputeOptions& options) {
  if (options.kind == "none") return 0;
  if (options.kind != "cheap" && options.kind != "segments") {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("recompute \"{}\": there are none, cheap, segments", options.kind));
  }
  if (options.kind == "segments" && options.segments < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("recompute: {} segments; 2 or more are wanted", options.segments));
  }
  return Recomputation(graph, loss, seed, variables, options).run();
}

}  // namespace xrt::autodiff
