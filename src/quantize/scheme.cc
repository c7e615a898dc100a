// SPDX-License-Identifier: Apache-2.0
// Rule: a sum of products is quantised from its input to the end of the chain behind it that one
// integer kernel computes: Add of a residual or bias, then Relu or Clip. A value inside of such a
// chain gets no scale: rounding there would cost accuracy, and the kernel never has that value in
// eight bits. Both operands of an Add may end chains; the later one takes the Add in, the other
// one's end becomes its residual.
#include "quantize/scheme.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/pattern.h"
#include "ops/op_facts.h"
#include "ops/quantized.h"

namespace xrt::quantization {
namespace {

bool is_float_constant(const Graph& graph, ValueId id) {
  const Tensor* t = id.valid() ? graph.constant(id) : nullptr;
  return t != nullptr && t->dtype() == DType::kFloat32 && t->count() > 0;
}

bool is_activation(const Graph& graph, ValueId id) {
  return id.valid() && graph.constant(id) == nullptr && graph.type(id).is_tensor() &&
         graph.type(id).dtype == DType::kFloat32;
}

bool is_sum_op(const Node& node) {
  return is_op(node, "Conv") || is_op(node, "Gemm") || is_op(node, "MatMul");
}

bool can_quantize(const Graph& graph, const Node& node) {
  if (!is_activation(graph, node.input(0)) || !is_float_constant(graph, node.input(1))) {
    return false;
  }
  const Tensor& weights = *graph.constant(node.input(1));
  const bool has_bias = node.input(2).valid();
  if (has_bias && !is_float_constant(graph, node.input(2))) return false;
  if (node.op == "Conv") return weights.rank() >= 3;
  if (weights.rank() != 2) return false;
  if (node.op == "MatMul") return true;
  const std::int64_t columns = weights.dims()[node.attr_int("transB", 0) != 0 ? 0 : 1];
  return node.attr_int("transA", 0) == 0 && node.attr_float("alpha", 1) == 1 &&
         node.attr_float("beta", 1) == 1 &&
         (!has_bias || (graph.constant(node.input(2))->rank() == 1 &&
                        graph.constant(node.input(2))->count() == columns));
}

// The data inputs of an op that only moves values about; nothing for other ops.
std::vector<ValueId> moved_inputs(const Node& node) {
  if (is_op(node, "Concat")) return node.inputs;
  if (at_most_once(op_facts(node).moves) || is_op(node, "Dropout")) return {node.input(0)};
  return {};
}

class Planner {
 public:
  Planner(const Graph& graph, const QuantizeOptions& options) : graph_(graph), options_(options) {}

  Scheme run() {
    order_ = graph_.topological_order();
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (!is_sum_op(node)) continue;
      if (options_.skip.contains(node.name) || !can_quantize(graph_, node)) {
        ++scheme_.kept;
      } else {
        scheme_.sums.push_back(id);
      }
    }
    for (std::size_t i = scheme_.sums.size(); i-- > 0;) {
      const Node& node = graph_.node(scheme_.sums[i]);
      add(node.input(0));
      follow(node);
    }
    while (spread()) {
    }
    number_groups();
    return std::move(scheme_);
  }

 private:
  void add(ValueId id) { parent_.try_emplace(id, id); }
  bool has(ValueId id) const { return parent_.contains(id); }
  ValueId root(ValueId id) const {
    while (parent_.at(id) != id) id = parent_.at(id);
    return id;
  }
  bool join(ValueId a, ValueId b) {
    a = root(a), b = root(b);
    if (a == b) return false;
    parent_[std::max(a, b)] = std::min(a, b);
    return true;
  }

  // From a sum to the end of its chain.
  void follow(const Node& sum) {
    const ValueId at = sum.output(0);
    const SumChain chain = chain_behind(graph_, sum);
    if (chain.add != nullptr && !taken_.insert(chain.add->output(0)).second) return add(at);
    if (chain.residual.valid()) {
      add(chain.residual);
      if (options_.round_sums) add(at);
    }
    add(chain.end);
  }

  // What moves quantised values has them as its outputs, of one scale. A Concat whose output is
  // quantised wants all its inputs so.
  bool spread() {
    bool changed = false;
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      const std::vector<ValueId> inputs = moved_inputs(node);
      if (inputs.empty() || !std::all_of(inputs.begin(), inputs.end(),
                                         [&](ValueId v) { return is_activation(graph_, v); })) {
        continue;
      }
      const std::size_t outputs = node.op == "Split" ? node.outputs.size() : 1;
      const bool all = std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) { return has(v); });
      if (!all && (node.op != "Concat" || !has(node.output(0)))) continue;
      for (std::size_t i = 0; i < outputs; ++i) {
        if (!node.output(i).valid()) continue;
        for (const ValueId v : inputs) {
          changed = changed || !has(v) || !has(node.output(i));
          add(v), add(node.output(i));
          changed = join(v, node.output(i)) || changed;
        }
      }
    }
    return changed;
  }

  void number_groups() {
    std::map<ValueId, std::size_t> numbers;
    for (const auto& [id, unused] : parent_) {
      scheme_.values.push_back(id);
      scheme_.groups.push_back(numbers.try_emplace(root(id), numbers.size()).first->second);
    }
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  Scheme scheme_;
  std::vector<NodeId> order_;
  std::map<ValueId, ValueId> parent_;  // of every value to quantise: a forest of groups
  std::set<ValueId> taken_;            // outputs of Adds inside of a chain
};

}  // namespace

Scheme make_scheme(const Graph& graph, const QuantizeOptions& options) {
  return Planner(graph, options).run();
}

}  // namespace xrt::quantization
