// SPDX-License-Identifier: Apache-2.0
// ONNX's op Attention, written out in ops that have lowerings.
//
// Sizes: B batch, N heads of the queries, K heads of keys and values, S positions of the queries, T
// of the keys, D and E widths of a head.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/handles.h"
#include "engines/cuda/attention.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda {
namespace {

enum Input : std::size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kSizes };
enum Output : std::size_t { kY, kPresentKey, kPresentValue, kScores };

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Adds ops whose results have known types.
class Writer {
 public:
  explicit Writer(xrt::Graph& graph) : graph_(graph) {}

  ValueId op(std::string_view name, std::vector<ValueId> inputs, DType dtype, const Dims& dims,
             Attributes attributes = {}) {
    const ValueId made = graph_.add_op(name, std::move(inputs), std::move(attributes));
    graph_.set_type(made, Type::tensor(dtype, dims));
    return made;
  }
  ValueId cast(ValueId value, DType dtype) {
    if (this->dtype(value) == dtype) return value;
    return op("Cast", {value}, dtype, dims(value), {{"to", static_cast<std::int64_t>(dtype)}});
  }
  ValueId reshape(ValueId value, const Dims& to) {
    return op("Reshape", {value, graph_.add_constant("", Tensor::from_int64(to))}, dtype(value), to,
              {{"allowzero", std::int64_t{0}}});
  }
  ValueId transpose(ValueId value, const Dims& permutation) {
    Dims to;
    for (const std::int64_t axis : permutation) {
      to.push_back(dims(value)[static_cast<std::size_t>(axis)]);
    }
    return op("Transpose", {value}, dtype(value), to, {{"perm", permutation}});
  }
  // A number of float32 or float64.
  ValueId number(double value, DType dtype) {
    if (dtype == DType::kFloat64) {
      return graph_.add_constant("", Tensor::from(dtype, {}, std::span<const double>(&value, 1)));
    }
    return graph_.add_constant("", Tensor::scalar(static_cast<float>(value)));
  }
  ValueId add_constant(Tensor tensor) { return graph_.add_constant("", std::move(tensor)); }

  DType dtype(ValueId value) const { return graph_.type(value).dtype; }
  Dims dims(ValueId value) const { return *graph_.type(value).static_dims(); }

 private:
  xrt::Graph& graph_;
};

// [B, S, N · D] to [B, N, S, D].
ValueId heads_of(Writer& w, ValueId value, std::int64_t heads) {
  const Dims dims = w.dims(value);
  if (dims.size() == 4) return value;
  return w.transpose(w.reshape(value, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

ValueId with_past(Writer& w, ValueId past, ValueId value) {
  if (!past.valid()) return value;
  Dims dims = w.dims(value);
  dims[2] += w.dims(past)[2];
  return w.op("Concat", {past, value}, w.dtype(value), dims, {{"axis", std::int64_t{2}}});
}

// Each head as often as it serves heads of the queries.
ValueId repeated(Writer& w, ValueId value, std::int64_t heads) {
  const Dims dims = w.dims(value);
  if (dims[1] == heads) return value;
  const Dims wide{dims[0], dims[1], heads / dims[1], dims[2], dims[3]};
  const ValueId apart = w.reshape(value, {dims[0], dims[1], 1, dims[2], dims[3]});
  const ValueId expanded =
      w.op("Expand", {apart, w.add_constant(Tensor::from_int64(wide))}, w.dtype(value), wide);
  return w.reshape(expanded, {dims[0], heads, dims[2], dims[3]});
}

// What the node itself hides of the keys, position by position; none where it hides nothing.
struct KeyWindow {
  std::vector<std::uint8_t> visible;  // [S, T]
  bool has_empty_row = false;
};
std::optional<KeyWindow> key_window_of(const Node& node, std::int64_t s, std::int64_t t,
                                       std::int64_t offset) {
  const bool causal = node.attr_int("is_causal", 0) != 0;
  const std::int64_t left = node.attr_int("left_window_size", -1);
  const std::int64_t right = node.attr_int("right_window_size", -1);
  if (!causal && left < 0 && right < 0) return std::nullopt;
  KeyWindow window;
  window.visible.assign(static_cast<std::size_t>(s * t), 1);
  for (std::int64_t row = 0; row < s; ++row) {
    const std::int64_t position = row + offset;
    bool any = false;
    for (std::int64_t key = 0; key < t; ++key) {
      const bool hidden = (causal && key > position) || (left >= 0 && key < position - left) ||
                          (right >= 0 && key > position + right);
      if (hidden) window.visible[static_cast<std::size_t>(row * t + key)] = 0;
      any = any || !hidden;
    }
    window.has_empty_row = window.has_empty_row || !any;
  }
  return window;
}

// Of keys that have sizes of their own, per batch [B]: those behind them are hidden, and positions
// of queries are counted from the size's end. What is added to the scores: [B, 1, S or 1, T].
ValueId hidden_behind(Writer& w, const Node& node, std::int64_t s, std::int64_t t, DType wide) {
  const ValueId sizes = w.cast(node.input(kSizes), DType::kInt64);
  const std::int64_t batch = element_count(w.dims(sizes));
  const ValueId size = w.reshape(sizes, {batch, 1, 1, 1});
  const auto positions = [&](std::int64_t count, const Dims& dims) {
    Dims numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    return w.add_constant(
        Tensor::from(DType::kInt64, dims, std::span<const std::int64_t>(numbers)));
  };
  const auto number = [&](std::int64_t value) {
    return w.add_constant(Tensor::from_int64(Dims{value}));
  };
  const ValueId keys = positions(t, {1, 1, 1, t});
  const Dims row{batch, 1, 1, t}, all{batch, 1, s, t}, column{batch, 1, s, 1};
  ValueId visible = w.op("Less", {keys, size}, DType::kBool, row);
  const auto also = [&](ValueId condition) {
    visible = w.op("And", {visible, condition}, DType::kBool, all);
  };
  const ValueId queries = positions(s, {1, 1, s, 1});
  const ValueId last = w.op("Sub", {w.op("Add", {queries, size}, DType::kInt64, column), number(s)},
                            DType::kInt64, column);
  if (node.attr_int("is_causal", 0) != 0) {
    also(w.op("LessOrEqual", {keys, last}, DType::kBool, all));
  }
  if (const std::int64_t left = node.attr_int("left_window_size", -1); left >= 0) {
    const ValueId first = w.op("Sub", {last, number(left)}, DType::kInt64, column);
    also(w.op("GreaterOrEqual", {keys, first}, DType::kBool, all));
  }
  if (const std::int64_t right = node.attr_int("right_window_size", -1); right >= 0) {
    const ValueId end = w.op("Add", {last, number(right)}, DType::kInt64, column);
    also(w.op("LessOrEqual", {keys, end}, DType::kBool, all));
  }
  return w.op("Where", {visible, w.number(0, wide), w.number(-double{kInfinity}, wide)}, wide,
              w.dims(visible));
}

// The sum of what is added to scores: dimensions of both.
ValueId sum_of_masks(Writer& w, ValueId a, ValueId b, DType wide) {
  Dims dims = w.dims(a), other = w.dims(b);
  while (dims.size() < other.size()) dims.insert(dims.begin(), 1);
  while (other.size() < dims.size()) other.insert(other.begin(), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = std::max(dims[i], other[i]);
  return w.op("Add", {a, b}, wide, dims);
}

// A mask of fewer keys hides the others.
ValueId with_all_keys(Writer& w, ValueId mask, std::int64_t t, DType wide) {
  Dims dims = w.dims(mask);
  if (dims.back() == t || dims.back() == 1) return mask;
  Dims pads(2 * dims.size(), 0);
  pads.back() = t - dims.back();
  dims.back() = t;
  return w.op("Pad",
              {mask, w.add_constant(Tensor::from_int64(pads)), w.number(-double{kInfinity}, wide)},
              wide, dims, {{"mode", std::string("constant")}});
}

void expand(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Writer w(graph);
  const DType given = w.dtype(node.input(kQ));
  const DType wide = given == DType::kFloat64 ? given : DType::kFloat32;
  const ValueId q = heads_of(w, node.input(kQ), node.attr_int("q_num_heads", 0));
  const std::int64_t kv_heads = node.attr_int("kv_num_heads", 0);
  const ValueId keys = with_past(w, node.input(kPastKey), heads_of(w, node.input(kK), kv_heads));
  const ValueId values =
      with_past(w, node.input(kPastValue), heads_of(w, node.input(kV), kv_heads));
  const Dims q_dims = w.dims(q);
  const std::int64_t heads = q_dims[1], s = q_dims[2], t = w.dims(keys)[2];
  const ValueId k = repeated(w, keys, heads);
  const ValueId v = repeated(w, values, heads);
  const Dims score_dims{q_dims[0], heads, s, t};

  const float given_scale = node.attr_float("scale", 0);
  const double scale =
      given_scale != 0 ? double{given_scale} : 1 / std::sqrt(static_cast<double>(q_dims[3]));
  const ValueId scaled = w.op("Mul", {w.cast(q, wide), w.number(scale, wide)}, wide, q_dims);
  ValueId scores =
      w.op("MatMul", {scaled, w.transpose(w.cast(k, wide), {0, 1, 3, 2})}, wide, score_dims);
  enum Mode : std::int64_t { kProduct, kCapped, kMasked, kWeights };
  const bool gives_scores = node.output(kScores).valid();
  const std::int64_t mode =
      gives_scores ? node.attr_int("qk_matmul_output_mode", kProduct) : kProduct;
  ValueId given_out = scores;  // of the node's output of scores
  if (const float cap = node.attr_float("softcap", 0); cap != 0) {
    const ValueId number = w.number(double{cap}, wide);
    scores = w.op("Tanh", {w.op("Div", {scores, number}, wide, score_dims)}, wide, score_dims);
    scores = w.op("Mul", {scores, number}, wide, score_dims);
  }
  if (mode != kProduct) given_out = scores;

  // What is added to the scores, and which rows see nothing: they give zeros.
  ValueId mask = node.input(kMask);
  bool may_hide_rows = mask.valid();
  if (mask.valid() && w.dtype(mask) == DType::kBool) {
    mask = w.op("Where", {mask, w.number(0, wide), w.number(-double{kInfinity}, wide)}, wide,
                w.dims(mask));
  } else if (mask.valid()) {
    mask = w.cast(mask, wide);
  }
  if (mask.valid()) mask = with_all_keys(w, mask, t, wide);
  const ValueId past = node.input(kPastKey);
  std::optional<KeyWindow> window;
  if (node.input(kSizes).valid()) {
    const ValueId hidden = hidden_behind(w, node, s, t, wide);
    mask = mask.valid() ? sum_of_masks(w, mask, hidden, wide) : hidden;
    may_hide_rows = true;
  } else {
    window = key_window_of(node, s, t, past.valid() ? w.dims(past)[2] : 0);
  }
  if (window) {
    may_hide_rows = may_hide_rows || window->has_empty_row;
    Tensor visible = Tensor::allocate(DType::kBool, {s, t});
    std::copy(window->visible.begin(), window->visible.end(),
              static_cast<std::uint8_t*>(visible.raw()));
    const ValueId condition = w.add_constant(std::move(visible));
    const ValueId low = w.number(-double{kInfinity}, wide);
    if (mask.valid() || window->has_empty_row) {
      const ValueId added = w.op("Where", {condition, w.number(0, wide), low}, wide, {s, t});
      mask = mask.valid() ? sum_of_masks(w, mask, added, wide) : added;
    } else {
      scores = w.op("Where", {condition, scores, low}, wide, score_dims);
    }
  }
  if (mask.valid()) scores = w.op("Add", {scores, mask}, wide, score_dims);
  if (mode == kMasked) given_out = scores;
  const ValueId weights = w.op("Softmax", {scores}, wide, score_dims, {{"axis", std::int64_t{-1}}});
  if (mode == kWeights) given_out = weights;
  const Dims dims{q_dims[0], heads, s, w.dims(v)[3]};
  ValueId y = w.cast(w.op("MatMul", {weights, w.cast(v, wide)}, wide, dims), given);
  if (may_hide_rows) {
    Dims rows = w.dims(mask);
    rows.back() = 1;
    const ValueId axes = w.add_constant(Tensor::from_int64(Dims{-1}));
    const ValueId most =
        w.op("ReduceMax", {mask, axes}, wide, rows,
             {{"keepdims", std::int64_t{1}}, {"noop_with_empty_axes", std::int64_t{0}}});
    const ValueId hidden =
        w.op("Equal", {most, w.number(-double{kInfinity}, wide)}, DType::kBool, rows);
    const ValueId zero = w.cast(w.number(0, wide), given);
    y = w.op("Where", {hidden, zero, y}, given, dims);
    if (mode == kWeights) {
      given_out = w.op("Where", {hidden, w.number(0, wide), weights}, wide, score_dims);
    }
  }
  const ValueId whole = node.outputs[kY];
  if (graph.type(whole).static_dims()->size() == 3) {
    y = w.reshape(w.transpose(y, {0, 2, 1, 3}), *graph.type(whole).static_dims());
  }
  graph.replace_uses(whole, y);
  for (const auto& [output, value] : {std::pair{kPresentKey, keys}, {kPresentValue, values}}) {
    if (node.output(output).valid()) graph.replace_uses(node.output(output), value);
  }
  if (gives_scores) graph.replace_uses(node.output(kScores), w.cast(given_out, given));
  graph.remove_node(id);
}

}  // namespace

Support supports_attention(const GraphView& graph, const NodeView& node) {
  const TypeView q = graph.type(node.input(kQ));
  if (!is_float(q.dtype())) {
    return Support::no("there is no kernel of it for " + std::string(to_string(q.dtype())));
  }
  for (const std::size_t input : {kK, kV, kPastKey, kPastValue}) {
    if (!node.input(input).valid()) continue;
    if (graph.type(node.input(input)).dtype() != q.dtype()) {
      return Support::no("queries, keys and values are of several types");
    }
  }
  const TypeView k = graph.type(node.input(kK));
  if (q.rank() != k.rank() || q.rank() != graph.type(node.input(kV)).rank() || q.rank() < 3 ||
      q.rank() > 4) {
    return Support::no("queries, keys and values are of several ranks");
  }
  if (node.input(kMask).valid() && graph.type(node.input(kMask)).rank() == 0) {
    return Support::no("its mask is one number");
  }
  return Support::yes();
}

void expand_attention(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    if (graph.alive(id) && graph.node(id).qualified_op() == "Attention") expand(graph, id);
  }
}

}  // namespace xrt::cuda
