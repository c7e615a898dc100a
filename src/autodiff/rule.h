// SPDX-License-Identifier: Apache-2.0
// Gradient rules: one per op, in a registry.
//
//   void tanh_rule(Rule& r) { r.give(0, r.dy() * (1.0 - square(r.y()))); }
//   registry.add("Tanh", tanh_rule);
//
// A rule is asked once per node that lies between the values asked for and the loss. It reads the
// node's inputs, outputs and the gradients of its outputs, and gives a gradient of the input's
// shape for each input that needs one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/emitter.h"
#include "ir/attributes.h"
#include "ops/own_ops.h"
#include "xrt/autodiff.h"
#include "xrt/graph.h"

namespace xrt::autodiff {

class Rule {
 public:
  // `gradients` of the outputs: absent where nothing of that output leads to the loss.
  Rule(Emitter& e, NodeId id, std::vector<ValueId> gradients, std::vector<bool> needs);

  Emitter& e;
  const NodeId id;
  const Node node;  // a copy: the graph grows while the rule works

  // --- what is there --------------------------------------------------------------------------
  std::size_t input_count() const { return node.inputs.size(); }
  bool has(std::size_t i) const { return node.input(i).valid(); }
  bool needs(std::size_t i) const { return i < needs_.size() && needs_[i]; }
  Var x(std::size_t i = 0) const { return e.var(node.input(i)); }
  Var y(std::size_t k = 0) const { return e.var(node.output(k)); }
  // The gradient of output k; zeros where it has none.
  Var dy(std::size_t k = 0);
  bool has_dy(std::size_t k) const { return k < gradients_.size() && gradients_[k].valid(); }
  Type x_type(std::size_t i = 0) const { return e.graph().type(node.input(i)); }
  Type y_type(std::size_t k = 0) const { return e.graph().type(node.output(k)); }
  std::int64_t x_rank(std::size_t i = 0) const;
  std::int64_t y_rank(std::size_t k = 0) const;
  // Sizes that a rule needs as numbers; kUnsupported naming the node where they are not known.
  Dims x_dims(std::size_t i = 0) const;
  Dims y_dims(std::size_t k = 0) const;
  // The elements of an integer input that is a constant.
  Dims integers(std::size_t i, std::string_view what) const;
  std::int64_t attr(std::string_view name) const { return need_int(node, name); }

  // --- what is given --------------------------------------------------------------------------
  void give(std::size_t i, Var gradient);
  // A gradient of the shape that the inputs broadcast to: summed to the input's own shape.
  void give_broadcast(std::size_t i, Var gradient);
  const std::vector<ValueId>& given() const { return given_; }

  // Of a node with sub-graphs: the values that they capture and whose gradient is wanted.
  const std::vector<ValueId>& captured() const { return captured_; }
  void set_captured(std::vector<ValueId> values);
  void give_captured(std::size_t i, Var gradient) { given_captured_.at(i) = gradient.id; }
  const std::vector<ValueId>& given_captured() const { return given_captured_; }

  // `gradient`, which has the shape of `from`, summed to the shape of `to` (NumPy's broadcasting).
  // Both ranks are known; what the types leave open of the axes is decided at run time.
  Var sum_to(Var gradient, const Type& from, const Type& to, Var like) const;
  // x under the shape of `like`.
  Var reshape_as(Var x, Var like) const;
  Var expand_as(Var x, Var like) const;
  Var zeros_like(Var x) const;

  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  Dims dims_of(const Type& type, std::string_view what, std::size_t i) const;
  // Over the axes where the shapes differ, `like` having `lead` fewer of them in front.
  Var sum_at_run_time(Var gradient, Var like, std::size_t lead) const;

  std::vector<ValueId> gradients_;
  std::vector<bool> needs_;
  std::vector<ValueId> given_;
  std::vector<ValueId> captured_;
  std::vector<ValueId> given_captured_;
};

using RuleFunction = void (*)(Rule&);
// Builds what computes the same as a node, of ops with rules; returns its outputs, or none where
// the node stays and has a rule.
using ExpandFunction = std::vector<Var> (*)(Rule&);

inline constexpr std::uint64_t kAllInputs = ~std::uint64_t{0};
inline constexpr std::uint64_t inputs(std::initializer_list<int> list) {
  std::uint64_t mask = 0;
  for (const int i : list) mask |= std::uint64_t{1} << i;
  return mask;
}

struct RuleDef {
  GradientKind kind = GradientKind::kNone;
  RuleFunction rule = nullptr;
  ExpandFunction expand = nullptr;
  std::uint64_t differentiable = kAllInputs;  // input 63 stands for all that follow

  // Whether input i has a derivative.
  bool passes(std::size_t i) const { return (differentiable >> (i < 63 ? i : 63) & 1U) != 0; }
};

class RuleRegistry {
 public:
  static const RuleRegistry& get();

  void add(std::string_view op, RuleFunction rule, std::uint64_t differentiable = kAllInputs);
  void add_zero(std::string_view op);
  void add_expanded(std::string_view op, ExpandFunction expand,
                    std::uint64_t differentiable = kAllInputs, RuleFunction rule = nullptr);
  void add_own(std::string_view op, RuleFunction rule,
               std::uint64_t differentiable = kAllInputs);  // of the domain "xrt"
  const RuleDef* find(std::string_view domain, std::string_view op) const;

 private:
  std::map<std::string, RuleDef, std::less<>> rules_;
};

// How a node of the graph is differentiated: by a rule of the registry, or by the gradient that a
// user gave with the op (xrt/op.h). Nothing where there is neither.
std::optional<RuleDef> rule_for(const Graph& graph, const Node& node);

// One per file.
void register_elementwise(RuleRegistry& registry);
void register_activations(RuleRegistry& registry);
void register_quantization(RuleRegistry& registry);
void register_matrix(RuleRegistry& registry);
void register_convolution(RuleRegistry& registry);
void register_pool(RuleRegistry& registry);
void register_normalization(RuleRegistry& registry);
void register_reduce(RuleRegistry& registry);
void register_shape(RuleRegistry& registry);
void register_indexing(RuleRegistry& registry);
void register_resize(RuleRegistry& registry);
void register_recurrent(RuleRegistry& registry);
void register_control(RuleRegistry& registry);
void register_loop(RuleRegistry& registry);
void register_sampling(RuleRegistry& registry);
void register_signal(RuleRegistry& registry);

}  // namespace xrt::autodiff
