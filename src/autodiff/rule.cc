// SPDX-License-Identifier: Apache-2.0
#include "autodiff/rule.h"

#include <fmt/format.h>

#include "ir/rewrite.h"
#include "ops/op_registry.h"
#include "ops/schema.h"
#include "xrt/error.h"

namespace xrt::autodiff {

Rule::Rule(Emitter& emitter, NodeId id, std::vector<ValueId> gradients, std::vector<bool> needs)
    : e(emitter),
      id(id),
      node(emitter.graph().node(id)),
      gradients_(std::move(gradients)),
      needs_(std::move(needs)),
      given_(node.inputs.size()) {}

void Rule::refuse(const std::string& reason) const {
  throw Error(ErrorCode::kUnsupported, fmt::format("gradient of node '{}' ({}): {}", node.name,
                                                   node.qualified_op(), reason));
}

Var Rule::dy(std::size_t k) {
  if (has_dy(k)) return e.var(gradients_[k]);
  return zeros_like(y(k));
}

Var Rule::zeros_like(Var x) const {
  const Type type = e.graph().type(x.id);
  if (const auto dims = type.static_dims()) {
    if (element_count(*dims) <= 64) return e.constant(filled(x.dtype, *dims, 0));
    return expand(e.scalar(0, x.dtype), *dims);
  }
  return expand_as(e.scalar(0, x.dtype), x);
}

std::int64_t Rule::x_rank(std::size_t i) const {
  const Type type = x_type(i);
  if (!type.has_rank()) refuse(fmt::format("the rank of input {} is unknown", i));
  return static_cast<std::int64_t>(type.rank());
}

std::int64_t Rule::y_rank(std::size_t k) const {
  const Type type = y_type(k);
  if (!type.has_rank()) refuse(fmt::format("the rank of output {} is unknown", k));
  return static_cast<std::int64_t>(type.rank());
}

Dims Rule::dims_of(const Type& type, std::string_view what, std::size_t i) const {
  const auto dims = type.static_dims();
  if (!dims) {
    refuse(fmt::format("{} {} is {}; its sizes have to be known", what, i, to_string(type)));
  }
  return *dims;
}

Dims Rule::x_dims(std::size_t i) const { return dims_of(x_type(i), "input", i); }
Dims Rule::y_dims(std::size_t k) const { return dims_of(y_type(k), "output", k); }

Dims Rule::integers(std::size_t i, std::string_view what) const {
  const Tensor* tensor = has(i) ? e.graph().constant(node.input(i)) : nullptr;
  if (tensor == nullptr) refuse(fmt::format("{} (input {}) is not a constant", what, i));
  return tensor->to_int64();
}

void Rule::give(std::size_t i, Var gradient) {
  if (!needs(i)) return;
  given_.at(i) = gradient.id;
}

void Rule::set_captured(std::vector<ValueId> values) {
  captured_ = std::move(values);
  given_captured_.assign(captured_.size(), {});
}

void Rule::give_broadcast(std::size_t i, Var gradient) {
  if (!needs(i)) return;
  give(i, sum_to(gradient, y_type(), x_type(i), x(i)));
}

Var Rule::sum_to(Var gradient, const Type& from, const Type& to, Var like) const {
  if (!from.has_rank() || !to.has_rank()) refuse("a broadcast of unknown rank");
  const std::size_t lead = from.rank() - to.rank();
  Dims leading;
  Dims kept;
  for (std::size_t i = 0; i < from.rank(); ++i) {
    if (i < lead) {
      leading.push_back(static_cast<std::int64_t>(i));
      continue;
    }
    const Dim& wide = (*from.shape)[i];
    const Dim& own = (*to.shape)[i - lead];
    if (own.is_known() && own.value() == 1) {
      if (!wide.is_known() || wide.value() != 1) kept.push_back(static_cast<std::int64_t>(i));
      continue;
    }
    const bool same = own.is_known() || (own.is_symbol() && own == wide);
    if (!same) return sum_at_run_time(gradient, like, lead);
  }
  if (kept.empty()) return sum(gradient, leading, false);
  if (leading.empty()) return sum(gradient, kept, true);
  leading.insert(leading.end(), kept.begin(), kept.end());
  return reshape_as(sum(gradient, leading, true), like);
}

Var Rule::sum_at_run_time(Var gradient, Var like, std::size_t lead) const {
  const auto shape_of = [&](Var v) { return e.op_to(DType::kInt64, "Shape", {v}); };
  Var own = shape_of(like);
  if (lead > 0) own = concat({e.ints(Dims(lead, 1)), own}, 0);
  const Var differs = negate(equal(shape_of(gradient), own));
  const Var axes = squeeze(e.op_to(DType::kInt64, "NonZero", {differs}), {0});
  const Var summed =
      e.op("ReduceSum", {gradient, axes},
           {{"keepdims", std::int64_t{1}}, {"noop_with_empty_axes", std::int64_t{1}}});
  return reshape_as(summed, like);
}

Var Rule::reshape_as(Var x, Var like) const {
  const Type type = e.graph().type(like.id);
  if (const auto dims = type.static_dims()) return reshape(x, *dims);
  const Var shape = e.op_to(DType::kInt64, "Shape", {like});
  return e.op("Reshape", {x, shape}, {{"allowzero", std::int64_t{1}}});
}

Var Rule::expand_as(Var x, Var like) const {
  const Type type = e.graph().type(like.id);
  if (const auto dims = type.static_dims()) return expand(x, *dims);
  return e.op("Expand", {x, e.op_to(DType::kInt64, "Shape", {like})});
}

const RuleRegistry& RuleRegistry::get() {
  static const RuleRegistry registry = [] {
    RuleRegistry r;
    register_elementwise(r);
    register_activations(r);
    register_matrix(r);
    register_quantization(r);
    register_convolution(r);
    register_pool(r);
    register_normalization(r);
    register_reduce(r);
    register_shape(r);
    register_indexing(r);
    register_resize(r);
    register_recurrent(r);
    register_control(r);
    register_loop(r);
    register_sampling(r);
    register_signal(r);
    return r;
  }();
  return registry;
}

void RuleRegistry::add(std::string_view op, RuleFunction rule, std::uint64_t differentiable) {
  rules_[std::string(op)] = {GradientKind::kRule, rule, nullptr, differentiable};
}

void RuleRegistry::add_own(std::string_view op, RuleFunction rule, std::uint64_t differentiable) {
  rules_[fmt::format("{}.{}", kOwnDomain, op)] = {GradientKind::kRule, rule, nullptr,
                                                  differentiable};
}

void RuleRegistry::add_zero(std::string_view op) {
  rules_[std::string(op)] = {GradientKind::kZero, nullptr, nullptr, 0};
}

void RuleRegistry::add_expanded(std::string_view op, ExpandFunction expand,
                                std::uint64_t differentiable, RuleFunction rule) {
  rules_[std::string(op)] = {GradientKind::kExpanded, rule, expand, differentiable};
}

const RuleDef* RuleRegistry::find(std::string_view domain, std::string_view op) const {
  const auto found =
      domain.empty() ? rules_.find(op) : rules_.find(fmt::format("{}.{}", domain, op));
  return found == rules_.end() ? nullptr : &found->second;
}

namespace {

// The statements that came with a user's op.
void user_rule(Rule& r) {
  const Graph body = *gradient_body(r.e.graph(), r.id);
  std::vector<ValueId> arguments;
  const auto add = [&](ValueId v) {
    if (v.valid()) arguments.push_back(v);
  };
  for (const ValueId v : r.node.inputs) add(v);
  for (const ValueId v : r.node.outputs) add(v);
  for (std::size_t k = 0; k < r.node.outputs.size(); ++k) {
    if (r.node.outputs[k].valid()) add(r.dy(k).id);
  }
  const std::vector<ValueId> made =
      splice(r.e.graph(), body, arguments, "grad/" + r.node.name + "/");
  const std::vector<bool>& differentiable = registered_op(r.e.graph(), r.node)->differentiable;
  std::size_t next = 0;
  for (std::size_t i = 0; i < r.node.inputs.size(); ++i) {
    if (i < differentiable.size() && differentiable[i] && r.has(i))
      r.give(i, r.e.var(made[next++]));
  }
}

}  // namespace

std::optional<RuleDef> rule_for(const Graph& graph, const Node& node) {
  if (const RuleDef* def = RuleRegistry::get().find(node.domain, node.op)) return *def;
  const RegisteredOp* op = registered_op(graph, node);
  if (op == nullptr || op->gradient.empty()) return std::nullopt;
  RuleDef def{GradientKind::kRule, user_rule, nullptr, 0};
  for (std::size_t i = 0; i < op->differentiable.size() && i < 63; ++i) {
    if (op->differentiable[i]) def.differentiable |= std::uint64_t{1} << i;
  }
  return def;
}

}  // namespace xrt::autodiff
