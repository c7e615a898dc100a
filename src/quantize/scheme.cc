// SPDX-License-Identifier: Apache-2.0
// Rule: a sum of products is quantised from its input to the end of the chain behind it that one
// integer kernel computes: Add of a residual or bias, then Relu or Clip. A value inside of such a
// chain gets no scale: rounding there would cost accuracy, and the kernel never has that value in
// eight bits. Both operands of an Add may end chains; the later one takes the Add in, the other
// one's end becomes its residual.
//
// A matrix product whose chain is read by float ops alone (attention, norms, GELU, the caller)
// gives float32: its kernel has the sums, and rounding them would win nothing. In transformers it
// would cost most, for a few of these sums are hundreds of times larger than the others. A
// convolution's chain is rounded there, too, unless options.float_results says otherwise: engines
// compute activation functions behind it in eight bits.
#include "quantize/scheme.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ir/pattern.h"
#include "ops/op_facts.h"
#include "ops/quantized.h"
#include "quantize/op_rules.h"
#include "quantize/weights.h"

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

bool has_factors(const Graph& graph, const Node& node) {
  if (!is_activation(graph, node.input(0)) || !is_float_constant(graph, node.input(1))) {
    return false;
  }
  const Tensor& weights = *graph.constant(node.input(1));
  const bool has_bias = node.input(2).valid();
  if (has_bias && !is_float_constant(graph, node.input(2))) return false;
  if (is_op(node, "Conv") || is_op(node, "ConvTranspose")) return weights.rank() >= 3;
  if (!is_sum_op(node) || weights.rank() != 2) return false;
  if (node.op == "MatMul") return true;
  const std::int64_t columns = weights.dims()[output_axis(node)];
  return node.attr_int("transA", 0) == 0 && node.attr_float("alpha", 1) == 1 &&
         node.attr_float("beta", 1) == 1 &&
         (!has_bias || (graph.constant(node.input(2))->rank() == 1 &&
                        graph.constant(node.input(2))->count() == columns));
}

bool is_product(const Graph& graph, const Node& node) {
  return is_op(node, "MatMul") && is_activation(graph, node.input(0)) &&
         is_activation(graph, node.input(1));
}

enum class Kind { kNo, kSum, kProduct, kReader };

bool weights_vanish(const Graph& graph, const Node& node) {
  const Tensor& weights = *graph.constant(node.input(1));
  return all_vanish({weights.data<float>(), static_cast<std::size_t>(weights.count())});
}

// What of a node is to be quantised.
Kind kind_of(const Graph& graph, const Node& node, const OpChoice& choice) {
  if (choice.int8 == false) return Kind::kNo;
  const bool asked = choice.int8 == true;
  if (has_factors(graph, node)) return is_sum_op(node) || asked ? Kind::kSum : Kind::kNo;
  if (!asked) return Kind::kNo;
  if (is_product(graph, node)) return Kind::kProduct;
  const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId v) { return is_activation(graph, v); });
  return choice.is_meant && reads ? Kind::kReader : Kind::kNo;
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
    std::vector<std::pair<NodeId, Kind>> found;
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      Kind kind = kind_of(graph_, node, choice_for(node, options_));
      if (kind == Kind::kSum && weights_vanish(graph_, node)) {
        scheme_.too_small.push_back(node.name);
        kind = Kind::kNo;
      }
      if (kind == Kind::kNo) {
        if (is_sum_op(node)) ++scheme_.kept;
        continue;
      }
      found.emplace_back(id, kind);
      scheme_.nodes.push_back(id);
      if (kind == Kind::kSum) scheme_.sums.push_back(id);
      if (kind == Kind::kReader) ++scheme_.readers;
    }
    find_readers_in_int8();
    for (std::size_t i = found.size(); i-- > 0;) {
      const Node& node = graph_.node(found[i].first);
      const OpChoice choice = choice_for(node, options_);
      if (found[i].second == Kind::kSum) {
        add(node.input(0), choice);
        follow(node, choice);
        continue;
      }
      for (const ValueId v : node.inputs) {
        if (is_activation(graph_, v)) add(v, choice);
      }
    }
    while (spread()) {
    }
    number_groups();
    return std::move(scheme_);
  }

 private:
  void add(ValueId id) { parent_.try_emplace(id, id); }
  void add(ValueId id, const OpChoice& choice) {
    add(id);
    if (choice.form) forms_[id] = *choice.form;
    if (choice.clipping) clippings_[id] = *choice.clipping;
  }
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
  void follow(const Node& sum, const OpChoice& choice) {
    const ValueId at = sum.output(0);
    const SumChain chain = chain_behind(graph_, sum);
    const bool is_convolution = is_op(sum, "Conv") || is_op(sum, "ConvTranspose");
    const bool rounds = options_.round_results || (is_convolution && !options_.float_results);
    if (!rounds && !in_int8_.contains(chain.end)) return;
    if (chain.add != nullptr && !taken_.insert(chain.add->output(0)).second) {
      return add(at, choice);
    }
    if (chain.residual.valid()) {
      add(chain.residual);
      if (options_.round_sums) add(at, choice);
    }
    add(chain.end, choice);
  }

  // What the nodes of the scheme read, themselves or behind ops that move values about.
  void find_readers_in_int8() {
    for (const NodeId id : scheme_.nodes) {
      for (const ValueId v : graph_.node(id).inputs) {
        if (is_activation(graph_, v)) in_int8_.insert(v);
      }
    }
    for (std::size_t i = order_.size(); i-- > 0;) {
      const Node& node = graph_.node(order_[i]);
      const bool read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId v) { return in_int8_.contains(v); });
      if (!read) continue;
      for (const ValueId v : moved_inputs(node)) in_int8_.insert(v);
    }
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
    std::map<ValueId, Activations> forms;  // of groups; where rules differ, symmetric
    for (const auto& [id, form] : forms_) {
      Activations& of_group = forms.try_emplace(root(id), form).first->second;
      if (form == Activations::kSymmetric) of_group = form;
    }
    for (const auto& [id, unused] : parent_) {
      scheme_.values.push_back(id);
      scheme_.groups.push_back(numbers.try_emplace(root(id), numbers.size()).first->second);
      const auto form = forms.find(root(id));
      scheme_.forms.push_back(form == forms.end() ? options_.activations : form->second);
      const auto clipping = clippings_.find(id);
      scheme_.clippings.push_back(
          clipping == clippings_.end() ? std::nullopt : std::optional<Clipping>(clipping->second));
    }
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  Scheme scheme_;
  std::vector<NodeId> order_;
  std::map<ValueId, ValueId> parent_;      // of every value to quantise: a forest of groups
  std::set<ValueId> in_int8_;              // what nodes of the scheme read
  std::set<ValueId> taken_;                // outputs of Adds inside of a chain
  std::map<ValueId, Activations> forms_;   // by rules
  std::map<ValueId, Clipping> clippings_;  // by rules
};

}  // namespace

std::size_t output_axis(const Node& sum) {
  return is_op(sum, "Conv") || sum.attr_int("transB", 0) != 0 ? 0 : 1;
}

std::size_t channel_axis(const Node& sum, std::size_t rank) {
  return is_op(sum, "Conv") || is_op(sum, "ConvTranspose") ? 1 : rank - 1;
}

std::vector<std::string> kept_names(const Graph& graph, const QuantizeOptions& options) {
  std::vector<std::string> names;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (is_sum_op(node) && has_factors(graph, node) &&
        kind_of(graph, node, choice_for(node, options)) == Kind::kNo) {
      names.push_back(node.name);
    }
  }
  return names;
}

Scheme make_scheme(const Graph& graph, const QuantizeOptions& options) {
  return Planner(graph, options).run();
}

}  // namespace xrt::quantization
