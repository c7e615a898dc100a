// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "engines/native/dnn/fuse/optimize.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/canonical.h"

namespace xrt::native::dnn {
namespace {

bool is_scalar_near(const Graph& graph, ValueId value, float wanted) {
  const std::optional<float> found = scalar_constant(graph, value);
  return found && std::abs(*found - wanted) <= 1e-5F * std::max(1.0F, std::abs(wanted));
}

// A product of scalars and of values.
struct Product {
  double scale = 1;
  std::vector<ValueId> factors;

  bool is(double wanted, std::vector<ValueId> values) const {
    std::vector<ValueId> mine = factors;
    std::sort(mine.begin(), mine.end());
    std::sort(values.begin(), values.end());
    return mine == values && std::abs(scale - wanted) <= 1e-4 * std::abs(wanted);
  }
};

// Takes multiplications apart; `leaves` are not taken apart.
void collect(const Graph& graph, ValueId value, const std::vector<ValueId>& leaves, int depth,
             Product& product) {
  if (const auto scalar = scalar_constant(graph, value)) {
    product.scale *= *scalar;
    return;
  }
  const bool leaf = std::find(leaves.begin(), leaves.end(), value) != leaves.end();
  if (!leaf && depth > 0) {
    if (const Node* mul = producer(graph, value, "Mul")) {
      const ValueId a = mul->inputs[0];
      const ValueId b = mul->inputs[1];
      collect(graph, a, leaves, depth - 1, product);
      collect(graph, b, leaves, depth - 1, product);
      return;
    }
    if (const Node* div = producer(graph, value, "Div")) {
      const auto divisor = scalar_constant(graph, div->inputs[1]);
      if (divisor && *divisor != 0) {
        product.scale /= *divisor;
        collect(graph, div->inputs[0], leaves, depth - 1, product);
        return;
      }
    }
  }
  product.factors.push_back(value);
}

Product take_apart(const Graph& graph, ValueId value, const std::vector<ValueId>& leaves) {
  Product product;
  collect(graph, value, leaves, 4, product);
  return product;
}

struct Gated {
  ValueId result;
  double scale;  // result = scale · gate · x
};

// The multiplications above `gate` that give a multiple of gate · x, as far up as they do.
std::optional<Gated> gated(const Graph& graph, ValueId gate, ValueId x) {
  std::optional<Gated> found;
  ValueId top = gate;
  for (int i = 0; i < 3; ++i) {
    const auto use = sole_use(graph, top);
    if (!use) break;
    const Node& node = graph.node(use->node);
    if (!node.domain.empty() || (node.op != "Mul" && node.op != "Div")) break;
    top = node.outputs[0];
    const Product product = take_apart(graph, top, {gate, x});
    if (!product.is(product.scale, {gate, x})) continue;
    if (!same_shape(graph.type(top), graph.type(x))) break;
    found = Gated{top, product.scale};
  }
  return found;
}

void replace_with(Graph& graph, ValueId old, std::string_view op, std::vector<ValueId> inputs,
                  Attributes attributes = {}) {
  const Type type = graph.type(old);
  const ValueId made = graph.add_op(op, std::move(inputs), std::move(attributes));
  graph.set_type(made, type);
  canonicalize_node(graph, graph.value(made).producer);
  substitute(graph, old, made);
}

// old = factor · op(x)
void replace_with_scaled(Graph& graph, const Gated& old, double whole, std::string_view op,
                         ValueId x, Attributes attributes = {}) {
  const Type type = graph.type(old.result);
  ValueId made = graph.add_op(op, {x}, std::move(attributes));
  graph.set_type(made, type);
  canonicalize_node(graph, graph.value(made).producer);
  const double factor = old.scale / whole;
  if (std::abs(factor - 1) > 1e-5) {
    const ValueId scalar = graph.add_constant("", Tensor::scalar(static_cast<float>(factor)));
    made = graph.add_op("Mul", {made, scalar});
    graph.set_type(made, type);
  }
  substitute(graph, old.result, made);
}

// The value 1 + `value`, if that is what alone reads it.
std::optional<ValueId> plus_one(const Graph& graph, ValueId value) {
  const auto use = sole_use(graph, value);
  if (!use) return std::nullopt;
  const Node& node = graph.node(use->node);
  if (!node.domain.empty() || node.op != "Add" ||
      !is_scalar_near(graph, other_input(node, value), 1)) {
    return std::nullopt;
  }
  return node.outputs[0];
}

// x/2 · (1 + erf(x / √2))
bool fuse_gelu_erf(Graph& graph, NodeId id) {
  const ValueId erf = graph.node(id).outputs[0];
  const ValueId scaled = graph.node(id).inputs[0];
  Product inside;
  collect(graph, scaled, {}, 1, inside);
  if (inside.factors.size() != 1 || !inside.is(0.70710678, {inside.factors[0]})) return false;
  const ValueId x = inside.factors[0];
  const auto gate = plus_one(graph, erf);
  if (!gate) return false;
  const auto root = gated(graph, *gate, x);
  if (!root) return false;
  replace_with_scaled(graph, *root, 0.5, "Gelu", x);
  return true;
}

// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))
bool fuse_gelu_tanh(Graph& graph, NodeId id) {
  const ValueId tanh = graph.node(id).outputs[0];
  const Product inside = take_apart(graph, graph.node(id).inputs[0], {});
  if (inside.factors.size() != 1 || !inside.is(0.79788456, {inside.factors[0]})) return false;
  const Node* sum = producer(graph, inside.factors[0], "Add");
  if (sum == nullptr) return false;
  for (const ValueId x : sum->inputs) {
    const ValueId cubic = other_input(*sum, x);
    const Product p = take_apart(graph, cubic, {x});
    if (!p.is(0.044715, {x, x, x})) continue;
    const auto gate = plus_one(graph, tanh);
    if (!gate) return false;
    const auto root = gated(graph, *gate, x);
    if (!root) return false;
    replace_with_scaled(graph, *root, 0.5, "Gelu", x, {{"approximate", std::string("tanh")}});
    return true;
  }
  return false;
}

bool fuse_sigmoid_gate(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const ValueId x = node.inputs[0];
  const auto root = gated(graph, node.outputs[0], x);
  if (!root) return false;
  if (node.op == "Sigmoid") {
    replace_with_scaled(graph, *root, 1, "Swish", x, {{"alpha", 1.0F}});
    return true;
  }
  if (std::abs(need_float(node, "alpha") - 1.0F / 6) > 1e-4F ||
      std::abs(need_float(node, "beta") - 0.5F) > 1e-6F) {
    return false;
  }
  replace_with_scaled(graph, *root, 1, "HardSwish", x);
  return true;
}

// x · clip(x + 3, 0, 6) / 6, and the gate alone: a HardSigmoid.
bool fuse_clip_gate(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_scalar_near(graph, node.input(1), 0) || !is_scalar_near(graph, node.input(2), 6)) {
    return false;
  }
  const Node* sum = producer(graph, node.inputs[0], "Add");
  if (sum == nullptr) return false;
  for (const ValueId x : sum->inputs) {
    if (!is_scalar_near(graph, other_input(*sum, x), 3)) continue;
    const ValueId clip = node.outputs[0];
    if (const auto root = gated(graph, clip, x)) {
      replace_with_scaled(graph, *root, 1.0 / 6, "HardSwish", x);
      return true;
    }
    const auto use = sole_use(graph, clip);
    if (!use) return false;
    const Node& next = graph.node(use->node);
    if (next.domain.empty() && next.op == "Div" && use->index == 0 &&
        is_scalar_near(graph, next.inputs[1], 6) &&
        same_shape(graph.type(next.outputs[0]), graph.type(x))) {
      replace_with(graph, next.outputs[0], "HardSigmoid", {x},
                   {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
      return true;
    }
    return false;
  }
  return false;
}

bool reduces_last_axis(const Graph& graph, const Node& node) {
  const Tensor* axes = node.input(1).valid() ? graph.constant(node.input(1)) : nullptr;
  const Type& type = graph.type(node.inputs[0]);
  if (axes == nullptr || axes->count() != 1 || !type.has_rank()) return false;
  return need_int(node, "keepdims") == 1 &&
         axes->to_int64()[0] == static_cast<std::int64_t>(type.rank()) - 1;
}

// Float constant of shape [n] (ones in front allowed), n the last dimension of `type`.
bool is_row(const Graph& graph, ValueId value, const Type& type) {
  const Tensor* tensor = graph.constant(value);
  if (tensor == nullptr || tensor->dtype() != DType::kFloat32 || !type.has_rank() ||
      type.rank() == 0) {
    return false;
  }
  const Dim& last = type.shape->back();
  return last.is_known() && tensor->rank() >= 1 && tensor->rank() <= type.rank() &&
         tensor->dims().back() == last.value() && tensor->count() == last.value();
}

// (x - mean) / √(mean((x - mean)²) + ε) · scale + bias over the last axis
bool fuse_layer_norm(Graph& graph, NodeId id) {
  const Node& div = graph.node(id);
  const ValueId normalised = div.outputs[0];
  const ValueId centred = div.inputs[0];
  const Node* root = producer(graph, div.inputs[1], "Sqrt");
  const Node* sub = producer(graph, centred, "Sub");
  if (root == nullptr || sub == nullptr) return false;
  const Node* sum = producer(graph, root->inputs[0], "Add");
  if (sum == nullptr) return false;
  std::optional<float> epsilon = scalar_constant(graph, sum->inputs[1]);
  ValueId variance = sum->inputs[0];
  if (!epsilon) {
    epsilon = scalar_constant(graph, sum->inputs[0]);
    variance = sum->inputs[1];
  }
  const Node* mean_square = producer(graph, variance, "ReduceMean");
  const ValueId x = sub->inputs[0];
  const Node* mean = producer(graph, sub->inputs[1], "ReduceMean");
  if (!epsilon || mean_square == nullptr || mean == nullptr || mean->inputs[0] != x ||
      !reduces_last_axis(graph, *mean) || !reduces_last_axis(graph, *mean_square)) {
    return false;
  }
  const Node* pow = producer(graph, mean_square->inputs[0], "Pow");
  const Node* mul = producer(graph, mean_square->inputs[0], "Mul");
  const bool squared =
      (pow != nullptr && pow->inputs[0] == centred && is_scalar_near(graph, pow->inputs[1], 2)) ||
      (mul != nullptr && mul->inputs[0] == centred && mul->inputs[1] == centred);
  if (!squared || graph.type(x).dtype != DType::kFloat32) return false;

  const auto scale_use = sole_use(graph, normalised);
  if (!scale_use) return false;
  const Node& scaling = graph.node(scale_use->node);
  if (!scaling.domain.empty() || scaling.op != "Mul") return false;
  const ValueId scale = other_input(scaling, normalised);
  if (!is_row(graph, scale, graph.type(x))) return false;
  ValueId result = scaling.outputs[0];
  std::vector<ValueId> inputs{x, scale};
  if (const auto shift_use = sole_use(graph, result)) {
    const Node& shifting = graph.node(shift_use->node);
    if (shifting.domain.empty() && shifting.op == "Add") {
      const ValueId bias = other_input(shifting, result);
      if (is_row(graph, bias, graph.type(x))) {
        inputs.push_back(bias);
        result = shifting.outputs[0];
      }
    }
  }
  if (!same_shape(graph.type(result), graph.type(x))) return false;
  replace_with(graph, result, "LayerNormalization", std::move(inputs),
               {{"axis", std::int64_t{-1}}, {"epsilon", *epsilon}});
  return true;
}

}  // namespace

void fuse_formulas(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    if (!graph.alive(id)) continue;
    const Node& node = graph.node(id);
    if (!node.domain.empty() || !node.output(0).valid() ||
        graph.type(node.outputs[0]).dtype != DType::kFloat32) {
      continue;
    }
    if (node.op == "Erf") {
      fuse_gelu_erf(graph, id);
    } else if (node.op == "Tanh") {
      fuse_gelu_tanh(graph, id);
    } else if (node.op == "Sigmoid" || node.op == "HardSigmoid") {
      fuse_sigmoid_gate(graph, id);
    } else if (node.op == "Clip") {
      fuse_clip_gate(graph, id);
    } else if (node.op == "Div") {
      fuse_layer_norm(graph, id);
    }
  }
}

}  // namespace xrt::native::dnn
