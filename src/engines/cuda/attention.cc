// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/half.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda {
namespace {

bool is(const xrt::Graph& graph, NodeId id, std::string_view op) {
  return id.valid() && graph.node(id).domain.empty() && graph.node(id).op == op;
}

DType dtype_of(const xrt::Graph& graph, ValueId value) { return graph.type(value).dtype; }
Dims dims_of(const xrt::Graph& graph, ValueId value) {
  return graph.type(value).static_dims().value_or(Dims{});
}
bool is_half_or_float(DType dtype) { return is_half(dtype) || dtype == DType::kFloat32; }

std::optional<NodeId> only_reader(const xrt::Graph& graph, ValueId value) {
  const std::vector<Use>& uses = graph.uses(value);
  if (graph.is_output(value) || uses.size() != 1) return std::nullopt;
  return uses.front().node;
}

double element(const Tensor& tensor, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return double{static_cast<const float*>(tensor.raw())[at]};
    case DType::kFloat16:
      return double{half_to_float(static_cast<const std::uint16_t*>(tensor.raw())[at])};
    case DType::kBFloat16:
      return double{std::bit_cast<float>(
          std::uint32_t{static_cast<const std::uint16_t*>(tensor.raw())[at]} << 16)};
    case DType::kBool:
      return static_cast<const std::uint8_t*>(tensor.raw())[at] != 0 ? 1 : 0;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

std::optional<double> number_of(const xrt::Graph& graph, ValueId value) {
  const Tensor* constant = graph.constant(value);
  if (constant == nullptr || element_count(constant->dims()) != 1) return std::nullopt;
  const double number = element(*constant, 0);
  if (std::isnan(number)) return std::nullopt;
  return number;
}

// The operand and the number of a product or a quotient by a number.
struct Scaled {
  ValueId value;
  double factor = 1;
};
std::optional<Scaled> scaled(const xrt::Graph& graph, const Node& node) {
  const bool divides = node.op == "Div";
  if (!node.domain.empty() || (node.op != "Mul" && !divides)) return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    const auto number = number_of(graph, node.inputs[1 - i]);
    if (!number || (divides && (i == 1 || *number == 0))) continue;
    if (dims_of(graph, node.inputs[i]) != dims_of(graph, node.outputs[0])) continue;
    return Scaled{node.inputs[i], divides ? 1 / *number : *number};
  }
  return std::nullopt;
}

bool is_view(const Node& node) {
  return node.domain.empty() && (node.op == "Transpose" || node.op == "Reshape" ||
                                 node.op == "Squeeze" || node.op == "Unsqueeze");
}

// The value of half precision that `value` is, times a number and perhaps widened. Views between
// the two are taken of the former.
std::optional<Scaled> half_behind(xrt::Graph& graph, ValueId value) {
  const Type type = graph.type(value);
  const NodeId producer = graph.value(value).producer;
  if (producer.valid()) {
    const Node node = graph.node(producer);
    if (is(graph, producer, "Cast") && type.dtype == DType::kFloat32 &&
        is_half(dtype_of(graph, node.inputs[0]))) {
      return Scaled{node.inputs[0]};
    }
    if (const auto inner = scaled(graph, node)) {
      auto behind = half_behind(graph, inner->value);
      if (behind) behind->factor *= inner->factor;
      return behind;
    }
    if (is_view(node)) {
      auto behind = half_behind(graph, node.inputs[0]);
      if (!behind) return std::nullopt;
      if (behind->value == node.inputs[0]) return Scaled{value, behind->factor};
      std::vector<ValueId> inputs = node.inputs;
      inputs[0] = behind->value;
      Type narrow = type;
      narrow.dtype = dtype_of(graph, behind->value);
      behind->value = graph.add_op(node.op, std::move(inputs), node.attributes);
      graph.set_type(behind->value, std::move(narrow));
      return behind;
    }
  }
  if (is_half(type.dtype)) return Scaled{value};
  return std::nullopt;
}

// What is so low hides a score: its exponential is 0 beside any other.
constexpr double kHides = -6e4;

// Whether the last two axes, of equal sizes, are a lower triangle of `lower` under values for which
// `is_upper` holds, and all others are single.
template <typename Is>
bool is_triangle(const Tensor& tensor, double lower, const Is& is_upper) {
  const Dims& dims = tensor.dims();
  if (dims.size() < 2) return false;
  const std::int64_t size = dims.back();
  if (dims[dims.size() - 2] != size || element_count(dims) != size * size) return false;
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t column = 0; column < size; ++column) {
      const double value = element(tensor, row * size + column);
      if (column <= row ? value != lower : !is_upper(value)) return false;
    }
  }
  return true;
}

bool hides_later(const xrt::Graph& graph, ValueId mask) {
  const Tensor* constant = graph.constant(mask);
  return constant != nullptr &&
         is_triangle(*constant, 0.0, [](double value) { return value <= kHides; });
}

// Whether a node gives the same matrices under other batch axes.
bool regroups_batches(const xrt::Graph& graph, NodeId id) {
  if (!is(graph, id, "Reshape")) return false;
  const Dims from = dims_of(graph, graph.node(id).inputs[0]);
  const Dims to = dims_of(graph, graph.node(id).outputs[0]);
  return from.size() > 2 && to.size() > 2 && std::equal(from.end() - 2, from.end(), to.end() - 2);
}

// The value with these dimensions: where it is a regrouped one, the one before.
ValueId regrouped(xrt::Graph& graph, ValueId value, const Dims& dims) {
  if (dims_of(graph, value) == dims) return value;
  const NodeId producer = graph.value(value).producer;
  if (producer.valid() && is(graph, producer, "Reshape") &&
      dims_of(graph, graph.node(producer).inputs[0]) == dims) {
    return graph.node(producer).inputs[0];
  }
  const DType dtype = dtype_of(graph, value);
  const ValueId shape = graph.add_constant("", Tensor::from_int64(dims));
  const ValueId made = graph.add_op("Reshape", {value, shape}, {{"allowzero", std::int64_t{0}}});
  graph.set_type(made, Type::tensor(dtype, dims));
  return made;
}

// scale · product + mask, as far as it is that.
struct Scores {
  NodeId product;
  double scale = 1;
  std::optional<ValueId> mask = {};
  bool causal = false;
};

// Of a value that only `reader` reads, and perhaps `also`.
std::optional<Scores> scores_behind(const xrt::Graph& graph, ValueId value, NodeId reader,
                                    NodeId also = {}) {
  const std::vector<Use>& uses = graph.uses(value);
  const bool is_read_elsewhere =
      graph.is_output(value) || std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
        return use.node != reader && use.node != also;
      });
  if (is_read_elsewhere || !is_half_or_float(dtype_of(graph, value))) return std::nullopt;
  const NodeId id = graph.value(value).producer;
  if (!id.valid()) return std::nullopt;
  if (is(graph, id, "MatMul")) return Scores{id};
  const Node& node = graph.node(id);
  if (is(graph, id, "Cast")) return scores_behind(graph, node.inputs[0], id);
  if (regroups_batches(graph, id)) {
    // A mask before would be of other dimensions.
    auto scores = scores_behind(graph, node.inputs[0], id);
    if (scores && scores->mask) return std::nullopt;
    return scores;
  }
  if (const auto inner = scaled(graph, node)) {
    auto scores = scores_behind(graph, inner->value, id);
    if (!scores || scores->mask || scores->causal) return std::nullopt;
    scores->scale *= inner->factor;
    return scores;
  }
  const auto has_all_dims = [&](ValueId operand) {
    return dims_of(graph, operand) == dims_of(graph, value);
  };
  if (is(graph, id, "Add")) {
    for (const std::size_t i : {0, 1}) {
      const ValueId mask = node.inputs[1 - i];
      if (!has_all_dims(node.inputs[i]) || mask == node.inputs[i]) continue;
      auto scores = scores_behind(graph, node.inputs[i], id);
      if (!scores || scores->mask) continue;
      if (hides_later(graph, mask)) {
        scores->causal = true;
      } else {
        scores->mask = mask;
      }
      return scores;
    }
    return std::nullopt;
  }
  if (is(graph, id, "Where") && has_all_dims(node.inputs[1])) {
    // A condition of which some row may hide everything is left alone: what such a row gives
    // depends on the value that hides.
    const Tensor* condition = graph.constant(node.inputs[0]);
    const auto low = number_of(graph, node.inputs[2]);
    if (condition == nullptr || condition->dtype() != DType::kBool || !low || *low > kHides ||
        !is_triangle(*condition, 1.0, [](double value) { return value == 0; })) {
      return std::nullopt;
    }
    auto scores = scores_behind(graph, node.inputs[1], id);
    if (scores) scores->causal = true;
    return scores;
  }
  return std::nullopt;
}

// The node that takes the largest of each row of scores for a condition that is true where all of
// them are hidden; none where the condition is another one.
NodeId finds_hidden_rows(const xrt::Graph& graph, ValueId condition, ValueId scores) {
  const NodeId equal = graph.value(condition).producer;
  if (!is(graph, equal, "Equal")) return {};
  for (const std::size_t i : {0, 1}) {
    const NodeId most = graph.value(graph.node(equal).inputs[i]).producer;
    const auto low = number_of(graph, graph.node(equal).inputs[1 - i]);
    if (!is(graph, most, "ReduceMax") || graph.node(most).inputs[0] != scores || !low ||
        *low != -std::numeric_limits<double>::infinity()) {
      continue;
    }
    Dims rows = dims_of(graph, scores);
    rows.back() = 1;
    if (dims_of(graph, graph.node(most).outputs[0]) == rows) return most;
  }
  return {};
}

// Behind the weights: the product with values, and its result in half precision.
struct Weighted {
  NodeId product;
  ValueId result;
  NodeId most = {};  // of finds_hidden_rows(), where rows that are hidden give zeros
};

std::optional<Weighted> weighted(const xrt::Graph& graph, const Node& softmax) {
  Weighted made;
  ValueId value = softmax.outputs[0];
  for (;;) {
    const auto reader = only_reader(graph, value);
    if (!reader) return std::nullopt;
    const Node& node = graph.node(*reader);
    if (is(graph, *reader, "MatMul") && node.inputs[0] == value) {
      made.product = *reader;
      made.result = node.outputs[0];
      break;
    }
    if (is(graph, *reader, "Where") && node.inputs[2] == value &&
        number_of(graph, node.inputs[1]) == 0.0 && !made.most.valid()) {
      made.most = finds_hidden_rows(graph, node.inputs[0], softmax.inputs[0]);
      if (!made.most.valid()) return std::nullopt;
    } else if (!regroups_batches(graph, *reader) &&
               (!is(graph, *reader, "Cast") ||
                !is_half_or_float(dtype_of(graph, node.outputs[0])))) {
      return std::nullopt;
    }
    value = node.outputs[0];
  }
  for (;;) {
    const auto reader = only_reader(graph, made.result);
    const bool is_narrow = is_half(dtype_of(graph, made.result));
    if (!reader) break;
    const bool narrows = !is_narrow && is(graph, *reader, "Cast") &&
                         is_half(dtype_of(graph, graph.node(*reader).outputs[0]));
    if (!narrows && !regroups_batches(graph, *reader)) break;
    made.result = graph.node(*reader).outputs[0];
  }
  if (!is_half(dtype_of(graph, made.result))) return std::nullopt;
  return made;
}

bool broadcasts_to(const Dims& dims, const Dims& wanted) {
  if (dims.size() > wanted.size()) return false;
  const std::size_t shift = wanted.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && dims[i] != wanted[shift + i]) return false;
  }
  return true;
}

// Dimensions that the libraries take: one batch axis or two, heads of the same sizes on all sides.
bool has_fitting_dims(const Dims& q, const Dims& keys, const Dims& v) {
  constexpr std::int64_t kWidth = 8, kMostWidth = 256;
  const std::size_t rank = q.size();
  if (rank < 3 || rank > 4 || keys.size() != rank || v.size() != rank) return false;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (q[i] != keys[i] || q[i] != v[i]) return false;
  }
  for (const std::int64_t width : {q.back(), v.back()}) {
    if (width % kWidth != 0 || width > kMostWidth) return false;
  }
  return q.back() == keys[rank - 2] && keys.back() == v[rank - 2];
}

bool is_over_last_axis(const xrt::Graph& graph, const Node& softmax) {
  const auto rank = static_cast<std::int64_t>(dims_of(graph, softmax.inputs[0]).size());
  const std::int64_t axis = softmax.attr_int("axis", -1);
  return axis == -1 || axis == rank - 1;
}

// 0 in the rows in which the mask hides everything.
ValueId without_hidden_rows(xrt::Graph& graph, ValueId result, ValueId mask) {
  const DType dtype = dtype_of(graph, mask);
  Dims rows = dims_of(graph, mask);
  rows.back() = 1;
  const auto add = [&](std::string_view op, std::vector<ValueId> inputs, DType type,
                       const Dims& dims, Attributes attributes = {}) {
    const ValueId made = graph.add_op(op, std::move(inputs), std::move(attributes));
    graph.set_type(made, Type::tensor(type, dims));
    return made;
  };
  const auto number = [&](float value, DType type) {
    const ValueId wide = graph.add_constant("", Tensor::scalar(value));
    if (type == DType::kFloat32) return wide;
    return add("Cast", {wide}, type, {}, {{"to", static_cast<std::int64_t>(type)}});
  };
  const ValueId axes = graph.add_constant("", Tensor::from_int64(Dims{-1}));
  const ValueId most =
      add("ReduceMax", {mask, axes}, dtype, rows,
          {{"keepdims", std::int64_t{1}}, {"noop_with_empty_axes", std::int64_t{0}}});
  const ValueId hidden = add(
      "Equal", {most, number(-std::numeric_limits<float>::infinity(), dtype)}, DType::kBool, rows);
  const DType half = dtype_of(graph, result);
  return add("Where", {hidden, number(0, half), result}, half, dims_of(graph, result));
}

// Tries to make one node of the attention around a softmax.
void fuse(xrt::Graph& graph, NodeId id, const std::string& name) {
  const Node softmax = graph.node(id);
  if (!is_over_last_axis(graph, softmax)) return;
  const auto result = weighted(graph, softmax);
  if (!result) return;
  const auto scores = scores_behind(graph, softmax.inputs[0], id, result->most);
  if (!scores) return;
  const Node first = graph.node(scores->product);
  const DType half = dtype_of(graph, result->result);
  const auto v = half_behind(graph, graph.node(result->product).inputs[1]);
  const auto q = half_behind(graph, first.inputs[0]);
  const auto keys = half_behind(graph, first.inputs[1]);
  if (!v || !q || !keys || v->factor != 1) return;
  for (const ValueId value : {v->value, q->value, keys->value}) {
    if (dtype_of(graph, value) != half) return;
  }
  // All under the batch axes that the softmax has.
  const Dims score_dims = dims_of(graph, softmax.inputs[0]);
  const auto in_batches = [&](ValueId value) {
    const Dims own = dims_of(graph, value);
    Dims dims(score_dims.begin(), score_dims.end() - 2);
    dims.insert(dims.end(), own.end() - 2, own.end());
    return dims;
  };
  for (const ValueId value : {v->value, q->value, keys->value}) {
    const Dims own = dims_of(graph, value);
    if (own.size() < 2 || element_count(own) != element_count(in_batches(value))) return;
  }
  const Dims dims = in_batches(q->value), v_dims = in_batches(v->value);
  if (!has_fitting_dims(dims, in_batches(keys->value), v_dims)) return;
  std::vector<ValueId> inputs{regrouped(graph, q->value, dims),
                              regrouped(graph, keys->value, in_batches(keys->value)),
                              regrouped(graph, v->value, v_dims)};
  if (scores->mask) {
    const DType dtype = dtype_of(graph, *scores->mask);
    if (dtype != half && dtype != DType::kFloat32) return;
    if (!broadcasts_to(dims_of(graph, *scores->mask), score_dims)) return;
    inputs.push_back(*scores->mask);
  }
  Attributes attributes;
  attributes["scale"] = static_cast<float>(scores->scale * q->factor * keys->factor);
  attributes["causal"] = std::int64_t{scores->causal ? 1 : 0};
  const NodeId made = graph.add_node(kAttentionOp.substr(0, kAttentionOp.rfind('.')), "Attention",
                                     std::move(inputs), {""}, std::move(attributes), name);
  ValueId output = graph.node(made).outputs[0];
  Dims output_dims = dims;
  output_dims.back() = v_dims.back();
  graph.set_type(output, Type::tensor(half, output_dims));
  // A causal mask lets each position see itself.
  if (result->most.valid() && scores->mask) {
    output = without_hidden_rows(graph, output, *scores->mask);
  }
  graph.replace_uses(result->result, regrouped(graph, output, dims_of(graph, result->result)));
}

}  // namespace

void remove_unread(xrt::Graph& graph) {
  const auto is_unread = [&](ValueId value) {
    return !value.valid() || (graph.uses(value).empty() && !graph.is_output(value));
  };
  std::vector<NodeId> order = graph.topological_order();
  std::reverse(order.begin(), order.end());
  for (const NodeId id : order) {
    const std::vector<ValueId>& outputs = graph.node(id).outputs;
    if (std::all_of(outputs.begin(), outputs.end(), is_unread)) graph.remove_node(id);
  }
  for (const ValueId value : graph.constants()) {
    if (is_unread(value)) graph.remove_value(value);
  }
}

void fuse_attention(xrt::Graph& graph, const std::set<std::string>& unfused) {
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !is(graph, id, "Softmax")) continue;
    const std::string name = graph.node(id).name + "/attention";
    if (!unfused.contains(name)) fuse(graph, id, name);
  }
  remove_unread(graph);
}

void narrow_attention(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !is(graph, id, "MatMul")) continue;
    const Node& product = graph.node(id);
    const ValueId weights = product.inputs[0];
    const NodeId cast = graph.value(product.inputs[1]).producer;
    if (!is(graph, cast, "Cast") || dtype_of(graph, product.inputs[1]) != DType::kFloat32 ||
        !is(graph, graph.value(weights).producer, "Softmax") || only_reader(graph, weights) != id) {
      continue;
    }
    const ValueId values = graph.node(cast).inputs[0];
    const DType half = dtype_of(graph, values);
    const auto reader = only_reader(graph, product.outputs[0]);
    if (!is_half(half) || !reader || !is(graph, *reader, "Cast")) continue;
    const ValueId result = graph.node(*reader).outputs[0];
    if (dtype_of(graph, result) != half) continue;
    const Type type = graph.type(result);
    Type narrow = graph.type(weights);
    narrow.dtype = half;
    const ValueId rounded =
        graph.add_op("Cast", {weights}, {{"to", static_cast<std::int64_t>(half)}});
    graph.set_type(rounded, narrow);
    const ValueId made = graph.add_op("MatMul", {rounded, values});
    graph.set_type(made, type);
    graph.replace_uses(result, made);
    graph.remove_node(*reader);
    graph.remove_node(id);
  }
}

}  // namespace xrt::cuda
