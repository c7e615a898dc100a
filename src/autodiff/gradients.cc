// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autodiff/activity.h"
#include "autodiff/rule.h"
#include "ir/rewrite.h"
#include "ops/canonical.h"
#include "ops/op_registry.h"
#include "ops/schema.h"
#include "ops/shape_inference.h"
#include "xrt/autodiff.h"
#include "xrt/error.h"
#include "xrt/op.h"

namespace xrt {
namespace autodiff {
namespace {

// Every node whose output a value depends on.
std::vector<bool> nodes_before(const Graph& graph, ValueId value) {
  std::vector<bool> seen(graph.node_capacity());
  std::vector<NodeId> stack;
  const auto visit = [&](ValueId v) {
    const NodeId id = graph.value(v).producer;
    if (graph.value(v).origin != Origin::kNode || seen[id.index]) return;
    seen[id.index] = true;
    stack.push_back(id);
  };
  visit(value);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (const ValueId v : graph.dependencies(id)) visit(v);
  }
  return seen;
}

class Differentiation {
 public:
  Differentiation(Graph& graph, ValueId loss, std::span<const ValueId> wrt,
                  const GradientOptions& options)
      : graph_(graph), loss_(loss), wrt_(wrt.begin(), wrt.end()), options_(options) {}

  std::vector<ValueId> run() {
    infer_shapes(graph_);
    bring_to_canonical_form();
    check();
    while (expand_active()) {
    }
    Emitter emitter(graph_);
    find_varied();
    check_connected();
    gradients_.assign(graph_.value_capacity(), {});
    seed(emitter);
    const std::vector<bool> before = nodes_before(graph_, loss_);
    std::vector<NodeId> order = graph_.topological_order();
    std::reverse(order.begin(), order.end());
    for (const NodeId id : order) {
      if (before[id.index]) differentiate(emitter, id);
    }
    std::vector<ValueId> results;
    for (const ValueId v : wrt_) results.push_back(result(emitter, v));
    infer_shapes(graph_);
    return results;
  }

 private:
  // Rules read no other.
  void bring_to_canonical_form() {
    if (canonicalize(graph_)) infer_shapes(graph_);
  }

  void check() {
    const Type& type = graph_.type(loss_);
    if (!is_real(type)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the loss '{}' is {}; a floating-point scalar is wanted",
                              graph_.value(loss_).name, to_string(type)));
    }
    const auto dims = type.static_dims();
    const bool one = dims && element_count(*dims) == 1;
    if (!one && !options_.seed.valid()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the loss '{}' is {}; it must have one element: reduce it to its mean "
                      "or its sum",
                      graph_.value(loss_).name, to_string(type)));
    }
    for (const ValueId v : wrt_) {
      if (is_real(graph_.type(v))) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is {}; gradients are of floating-point tensors",
                              graph_.value(v).name, to_string(graph_.type(v))));
    }
  }

  // Which inputs of a node pass a gradient on.
  bool passes(const Node& node, const std::optional<RuleDef>& def, std::size_t i) const {
    if (!may_pass(graph_, node, i) || !varied_[node.inputs[i].index]) return false;
    return !def || def->passes(i);
  }

  // What sub-graphs capture passes a gradient on where the op has a rule at all.
  static bool captures_pass(const Node& node, const std::optional<RuleDef>& def) {
    return def.has_value() && def->kind != GradientKind::kZero && !Graph::subgraphs(node).empty();
  }

  std::vector<ValueId> varied_captures(const Node& node) const {
    std::vector<ValueId> found;
    for (const Graph* body : Graph::subgraphs(node)) {
      for (const Capture& c : body->captures()) {
        if (!varied_[c.outer.index] || !is_real(graph_.type(c.outer))) continue;
        if (std::find(found.begin(), found.end(), c.outer) == found.end()) found.push_back(c.outer);
      }
    }
    return found;
  }

  // Marks the values that change with those of wrt, through what can be differentiated. A node
  // without a rule counts as if it could be: the sweep refuses it where it matters.
  void find_varied() {
    varied_.assign(graph_.value_capacity(), false);
    for (const ValueId v : wrt_) varied_[v.index] = true;
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      const std::optional<RuleDef> def = rule_for(graph_, node);
      bool any = false;
      for (std::size_t i = 0; i < node.inputs.size() && !any; ++i) any = passes(node, def, i);
      if ((!def || captures_pass(node, def)) && !any) {
        for (const ValueId v : graph_.dependencies(id)) any = any || varied_[v.index];
      }
      if (!any) continue;
      for (const ValueId v : node.outputs) {
        if (v.valid() && gradient_type(graph_, v)) varied_[v.index] = true;
      }
    }
  }

  // Replaces nodes on the way to the loss that have no rule but a definition by other ops.
  bool expand_active() {
    find_varied();
    const std::vector<bool> before = nodes_before(graph_, loss_);
    bool changed = false;
    for (const NodeId id : graph_.topological_order()) {
      if (!before[id.index] || !graph_.alive(id)) continue;
      const Node& node = graph_.node(id);
      const std::optional<RuleDef> def = rule_for(graph_, node);
      const bool varied = std::any_of(node.outputs.begin(), node.outputs.end(),
                                      [&](ValueId v) { return v.valid() && varied_[v.index]; });
      if (!varied) continue;
      if (def.has_value() && def->kind == GradientKind::kExpanded) {
        changed = expand_by_rule(id, *def) || changed;
      } else if (!def && has_function_body(graph_, id)) {
        expand_by_body(id);
        changed = true;
      }
    }
    if (!changed) return false;
    infer_shapes(graph_);
    bring_to_canonical_form();
    return true;
  }

  // False where the node stays as it is.
  bool expand_by_rule(NodeId id, const RuleDef& def) {
    Emitter emitter(graph_);
    emitter.set_prefix(graph_.node(id).name);
    Rule rule(emitter, id, {}, {});
    const std::vector<Var> made = def.expand(rule);
    if (made.empty()) return false;
    for (std::size_t k = 0; k < rule.node.outputs.size(); ++k) {
      const ValueId old = rule.node.outputs[k];
      if (!old.valid()) continue;
      if (k >= made.size() || !made[k].valid()) rule.refuse(fmt::format("output {} is used", k));
      replace(old, made[k].id);
    }
    graph_.remove_node(id);
    return true;
  }

  void expand_by_body(NodeId id) {
    const Graph body = function_body(graph_, id);
    const Node node = graph_.node(id);
    std::vector<ValueId> arguments;
    for (const ValueId v : node.inputs) {
      if (v.valid()) arguments.push_back(v);
    }
    const std::vector<ValueId> made = splice(graph_, body, arguments, node.name + "/");
    std::size_t next = 0;
    for (const ValueId old : node.outputs) {
      if (old.valid()) replace(old, made.at(next++));
    }
    graph_.remove_node(id);
  }

  void replace(ValueId old, ValueId by) {
    replace_value(graph_, old, by);
    if (old == loss_) loss_ = by;
    std::replace(wrt_.begin(), wrt_.end(), old, by);
  }

  // Says what is in the way where a value of wrt does not lead to the loss.
  void check_connected() {
    if (options_.allow_unused) return;
    const std::vector<bool> before = nodes_before(graph_, loss_);
    const std::vector<bool> useful = leading_to(graph_, loss_);
    for (const ValueId v : wrt_) {
      if (useful[v.index]) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' {}", graph_.value(v).name, obstacle(v, before, useful)));
    }
  }

  std::string obstacle(ValueId from, const std::vector<bool>& before,
                       const std::vector<bool>& useful) const {
    // Forward from the value, to the first node that leads on but passes no gradient.
    std::vector<bool> reached(graph_.value_capacity());
    reached[from.index] = true;
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (!before[id.index]) continue;
      bool any = false;
      for (const ValueId v : graph_.dependencies(id)) any = any || reached[v.index];
      if (!any) continue;
      const bool ends = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
        return v.valid() && (useful[v.index] || !gradient_type(graph_, v));
      });
      if (ends) {
        return fmt::format(
            "does not lead to the loss '{}' by a way that can be differentiated: node '{}' ({}) "
            "has "
            "no derivative there",
            graph_.value(loss_).name, node.name, node.qualified_op());
      }
      for (const ValueId v : node.outputs) {
        if (v.valid()) reached[v.index] = true;
      }
    }
    return fmt::format("does not lead to the loss '{}'", graph_.value(loss_).name);
  }

  void seed(Emitter& emitter) {
    if (options_.seed.valid()) {
      set_gradient(loss_, options_.seed);
      return;
    }
    const Type type = graph_.type(loss_);
    set_gradient(loss_, emitter.constant(filled(type.dtype, *type.static_dims(), 1)).id);
  }

  ValueId gradient(ValueId v) const {
    return static_cast<std::size_t>(v.index) < gradients_.size() ? gradients_[v.index] : ValueId{};
  }

  void set_gradient(ValueId v, ValueId g) { gradients_.at(v.index) = g; }

  void differentiate(Emitter& emitter, NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> arriving;
    bool any = false;
    for (const ValueId v : node.outputs) {
      arriving.push_back(v.valid() ? gradient(v) : ValueId{});
      any = any || arriving.back().valid();
    }
    if (!any) return;
    const std::optional<RuleDef> def = rule_for(graph_, node);
    std::vector<bool> needs(node.inputs.size());
    bool wanted = false;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      needs[i] = passes(node, def, i);
      wanted = wanted || needs[i];
    }
    if (!def) {
      for (const ValueId v : graph_.dependencies(id)) wanted = wanted || varied_[v.index];
    }
    std::vector<ValueId> captured;
    if (captures_pass(node, def)) captured = varied_captures(node);
    if (!wanted && captured.empty()) return;
    if (!def || def->rule == nullptr) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("node '{}' ({}) has no gradient; it lies between '{}' and the loss",
                              node.name, node.qualified_op(), first_varied(id)));
    }
    emitter.set_prefix("grad/" + node.name);
    Rule rule(emitter, id, std::move(arriving), std::move(needs));
    rule.set_captured(std::move(captured));
    def->rule(rule);
    for (std::size_t i = 0; i < rule.given().size(); ++i) {
      if (rule.given()[i].valid()) accumulate(emitter, rule.node.inputs[i], rule.given()[i]);
    }
    for (std::size_t i = 0; i < rule.captured().size(); ++i) {
      accumulate(emitter, rule.captured()[i], rule.given_captured()[i]);
    }
  }

  std::string first_varied(NodeId id) const {
    for (const ValueId v : graph_.dependencies(id)) {
      if (varied_[v.index]) return graph_.value(v).name;
    }
    return {};
  }

  void accumulate(Emitter& emitter, ValueId v, ValueId more) {
    const ValueId before = gradient(v);
    const Type type = *gradient_type(graph_, v);
    set_gradient(
        v, before.valid() ? (emitter.var(before) + Var{&emitter, more, type.dtype}).id : more);
    graph_.set_type(gradient(v), type);
  }

  ValueId result(Emitter& emitter, ValueId v) {
    if (gradient(v).valid()) return gradient(v);
    const Type type = graph_.type(v);
    const Var zero = emitter.scalar(0, type.dtype);
    if (const auto dims = type.static_dims()) return expand(zero, *dims).id;
    const Var shape = emitter.op_to(DType::kInt64, "Shape", {emitter.var(v)});
    const ValueId made = emitter.op("Expand", {zero, shape}).id;
    graph_.set_type(made, type);
    return made;
  }

  Graph& graph_;
  ValueId loss_;
  std::vector<ValueId> wrt_;
  const GradientOptions& options_;
  std::vector<bool> varied_;        // by value
  std::vector<ValueId> gradients_;  // by value
};

}  // namespace
}  // namespace autodiff

std::vector<ValueId> gradients(Graph& graph, ValueId loss, std::span<const ValueId> wrt,
                               const GradientOptions& options) {
  return autodiff::Differentiation(graph, loss, wrt, options).run();
}

GradientKind gradient_kind(std::string_view domain, std::string_view op) {
  if (const auto* def = autodiff::RuleRegistry::get().find(domain, op)) return def->kind;
  if (has_gradient(domain, op)) return GradientKind::kRule;
  const auto info = op_info(domain, op);
  return info && info->has_function ? GradientKind::kExpanded : GradientKind::kNone;
}

}  // namespace xrt
