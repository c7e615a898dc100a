// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/barriers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engines/openvino/lowerings.h"
#include "engines/openvino/search.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/op_facts.h"

namespace xrt::openvino {
namespace {

template <std::size_t N>
bool is_among(const Node& node, const std::string_view (&ops)[N]) {
  return node.domain.empty() && std::find(std::begin(ops), std::end(ops), node.op) != std::end(ops);
}

bool is_normalization(const Node& node) {
  constexpr std::string_view kOps[] = {"GroupNormalization", "InstanceNormalization",
                                       "LayerNormalization", "MeanVarianceNormalization"};
  return is_among(node, kOps);
}

// Ops across which the plugin moves scales, of their first operand or of any.
bool passes_scales(const Node& node) {
  constexpr std::string_view kPassing[] = {"Abs",       "Clip",    "Concat", "Identity",
                                           "LeakyRelu", "MaxPool", "PRelu",  "Pad",
                                           "ReduceMax", "Relu",    "Resize"};
  return op_facts(node).moves != Moves::kNo || is_among(node, kPassing);
}

// Whether some node that `wanted` takes makes the value, or what passes_scales() made it of.
template <typename Wanted>
bool comes_from(const Graph& graph, ValueId value, const Wanted& wanted) {
  return search(producer(graph, value), [&](const Node& node, const auto& add) {
    if (wanted(node)) return true;
    if (!passes_scales(node)) return false;
    const std::size_t operands = is_op(node, "Concat") ? node.inputs.size() : 1;
    for (std::size_t i = 0; i < operands; ++i) add(producer(graph, node.input(i)));
    return false;
  });
}

// Whether parts of it are bytes with a sign that nothing has rounded since they were joined.
bool joins_signed_bytes(const Graph& graph, ValueId value) {
  return comes_from(graph, value, [&](const Node& joined) {
    return is_op(joined, "Concat") &&
           std::any_of(joined.inputs.begin(), joined.inputs.end(), [&](ValueId part) {
             return comes_from(graph, part, [&](const Node& n) {
               return is_op(n, "DequantizeLinear") && graph.type(n.input(0)).dtype == DType::kInt8;
             });
           });
  });
}

bool is_dequantized(const Graph& graph, ValueId value) {
  return comes_from(graph, value, [](const Node& n) { return is_op(n, "DequantizeLinear"); });
}

// Whether an operand is a constant for places along an axis that is not the channels'.
bool has_constant_by_place(const Graph& graph, const Node& node) {
  const Type& type = graph.type(node.outputs[0]);
  if (!type.shape || type.rank() < 3) return false;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    const Tensor* constant = v.valid() ? graph.constant(v) : nullptr;
    if (constant == nullptr) return false;
    const Dims& dims = constant->dims();
    const std::size_t places = std::min(dims.size(), type.rank() - 2);
    return std::any_of(dims.end() - static_cast<std::ptrdiff_t>(places), dims.end(),
                       [](std::int64_t dim) { return dim != 1; });
  });
}

bool is_scaled_by_place(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  constexpr std::string_view kScaling[] = {"Div", "Mul"};
  return node != nullptr && is_among(*node, kScaling) && has_constant_by_place(graph, *node);
}

// By constants, or by what a normalisation has for them.
bool is_scaled_or_shifted(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  constexpr std::string_view kScaling[] = {"Add", "Div", "Mul", "Sub"};
  if (node == nullptr) return false;
  if (is_normalization(*node) || is_op(*node, "BatchNormalization")) return true;
  return is_among(*node, kScaling) &&
         std::any_of(node->inputs.begin(), node->inputs.end(),
                     [&](ValueId v) { return graph.constant(v) != nullptr; });
}

bool is_zero(const Graph& graph, ValueId value) {
  const Tensor* constant = value.valid() ? graph.constant(value) : nullptr;
  if (constant == nullptr) return !value.valid();
  const std::vector<std::int64_t> values = constant->to_int64();
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v == 0; });
}

// Only what is dequantised with a zero point of zero is padded with zeros as it is.
bool pads_rightly(const Graph& graph, const Node& node) {
  if (need_string(node, "mode") != "constant") return true;
  if (node.input(2).valid() && scalar_constant(graph, node.input(2)) != 0.0F) return false;
  return comes_from(graph, node.input(0), [&](const Node& n) {
    return is_op(n, "DequantizeLinear") && is_zero(graph, n.input(2));
  });
}

// The padding of an average is not shifted with what is averaged.
bool averages_padding(const Node& node) {
  return node.has("pads") && node.has("count_include_pad") &&
         need_int(node, "count_include_pad") != 0;
}

// What is averaged may stay in bytes where the next op rounds to bytes anyway. The plugin averages
// three axes of few channels wrongly.
bool averages_to_floats(const Graph& graph, const Node& node) {
  const Type& type = graph.type(node.input(0));
  if (!type.shape || type.rank() <= 3) return true;
  const std::vector<Use>& uses = graph.uses(node.outputs[0]);
  return graph.is_output(node.outputs[0]) || !std::all_of(uses.begin(), uses.end(), [&](Use use) {
           return is_op(graph.node(use.node), "QuantizeLinear");
         });
}

bool is_mean_of(const Graph& graph, ValueId value, ValueId of) {
  const Node* mean = producer(graph, value, "ReduceMean");
  return mean != nullptr && mean->input(0) == of;
}

// Whether the node takes a constant that is dequantised, and divides its last axis. The plugin
// divides by how often a scale of the axis is repeated, which is 0 where the scale is longer.
bool splits_quantized_summand(const Graph& graph, const Node& node) {
  const Node* sum = producer(graph, node.input(0));
  if (!is_op(node, "Reshape") || sum == nullptr || !is_elementwise(*sum)) return false;
  const Type& from = graph.type(node.input(0));
  const Type& to = graph.type(node.outputs[0]);
  if (!from.has_rank() || !to.has_rank() || from.rank() == 0 || to.rank() == 0) return true;
  if (from.shape->back().is_known() && from.shape->back() == to.shape->back()) return false;
  return std::any_of(sum->inputs.begin(), sum->inputs.end(), [&](ValueId v) {
    const Node* scaled = producer(graph, v, "DequantizeLinear");
    return scaled != nullptr && graph.constant(scaled->input(0)) != nullptr;
  });
}

// Whether the first operand must come with its scale, in a graph that quantises.
bool must_keep_scale(const Graph& graph, const Node& node) {
  constexpr std::string_view kAverages[] = {"AveragePool", "GlobalAveragePool"};
  const ValueId x = node.input(0);
  if (is_normalization(node) ||
      // The first step of one that is written out.
      (is_op(node, "Sub") && is_mean_of(graph, node.input(1), x))) {
    return true;
  }
  if (is_among(node, kAverages)) {
    return averages_padding(node) || is_scaled_by_place(graph, x) ||
           (is_dequantized(graph, x) && averages_to_floats(graph, node));
  }
  if (is_op(node, "ReduceMean") || is_op(node, "ReduceSum")) return is_dequantized(graph, x);
  // The bounds are rounded to bytes.
  if (is_op(node, "Clip")) return is_dequantized(graph, x);
  if (is_op(node, "Pad")) return !pads_rightly(graph, node);
  if (splits_quantized_summand(graph, node)) return true;
  if (is_op(node, "Conv")) return joins_signed_bytes(graph, x);
  // The second of two roundings is not the first with other bounds.
  if (is_op(node, "QuantizeLinear") && producer(graph, x, "DequantizeLinear") != nullptr) {
    return true;
  }
  // Convolutions take what is joined for bytes without a sign.
  if (is_op(node, "QuantizeLinear") && graph.type(node.outputs[0]).dtype == DType::kInt8) {
    return comes_from(graph, x, [](const Node& n) { return is_op(n, "Concat"); });
  }
  // Two summands become one, of the channels.
  constexpr std::string_view kSums[] = {"Add", "Sub"};
  if (is_among(node, kSums)) {
    return has_constant_by_place(graph, node) && is_scaled_or_shifted(graph, x);
  }
  // Its axis goes, that of the scales stays.
  if (is_op(node, "Gather")) {
    const Type& indices = graph.type(node.input(1));
    return indices.shape && indices.rank() == 0;
  }
  return false;
}

// Functions that do not fall may change places with a maximum.
bool may_fall(const Node& node) {
  constexpr std::string_view kRising[] = {"Clip", "Relu"};
  return is_elementwise(node) && !is_among(node, kRising);
}

// Whether the node is such a function, or moves elements to one: the plugin moves that up.
bool leads_to_falling(const Graph& graph, const Node& first) {
  return search(&first, [&](const Node& node, const auto& add) {
    if (may_fall(node)) return true;
    if (!passes_scales(node)) return false;
    for (const ValueId v : node.outputs) {
      if (!v.valid()) continue;
      for (const Use& use : graph.uses(v)) add(&graph.node(use.node));
    }
    return false;
  });
}

// Whether some node that `wanted` takes makes the value, or what its elements are computed of.
template <typename Wanted>
bool is_computed_of(const Graph& graph, ValueId value, const Wanted& wanted,
                    bool through_rounding = false) {
  return search(producer(graph, value), [&](const Node& node, const auto& add) {
    if (wanted(node)) return true;
    const bool passes = is_elementwise(node) || op_facts(node).moves != Moves::kNo ||
                        (through_rounding && is_rounding(node));
    if (!passes) return false;
    for (const ValueId v : node.inputs) add(producer(graph, v));
    return false;
  });
}

// The Softmax that makes the value, rounded or not.
const Node* softmax_of(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  while (node != nullptr && is_rounding(*node)) node = producer(graph, node->input(0));
  return node != nullptr && is_op(*node, "Softmax") ? node : nullptr;
}

// Whether it is the result of an attention, or computed of its elements.
bool comes_from_attention(const Graph& graph, ValueId value) {
  return is_computed_of(graph, value, [&](const Node& n) {
    return is_op(n, "MatMul") && softmax_of(graph, n.input(0)) != nullptr;
  });
}

constexpr std::size_t kAttentionAxes = 4;

// What the kernel of an attention may take in: itself, or as one with another.
bool turns_four_axes(const Graph& graph, const Node& node) {
  return is_op(node, "Transpose") && graph.type(node.input(0)).has_rank() &&
         graph.type(node.input(0)).rank() == kAttentionAxes;
}

// [batch, places, heads, size] to [batch, heads, places, size], or back.
bool swaps_places_and_heads(const Node& node) {
  return is_op(node, "Transpose") &&
         node.attr_ints("perm") == std::vector<std::int64_t>{0, 2, 1, 3};
}

// Whether one node or the graph's caller reads the value; those that read what is the same do.
bool has_one_reader(const Graph& graph, ValueId value) {
  while (!graph.is_output(value)) {
    const std::optional<Use> use = sole_use(graph, value);
    if (!use) return false;
    const Node& node = graph.node(use->node);
    if (!is_op(node, "Identity")) return true;
    value = node.outputs[0];
  }
  return graph.uses(value).empty();
}

bool is_view(const Node& node) { return op_facts(node).moves == Moves::kView; }

// lowerings.cc gives the operand of some ops one axis more.
bool views_operand(const Node& node) {
  constexpr std::string_view kRepeating[] = {"Concat", "Expand", "Tile"};
  return is_view(node) || is_among(node, kRepeating);
}

// Whether the plugin leaves the transpose that gives the value alone, or gave it in another shape.
// It makes one of two, and a part of a reduction; and several that view a view are views of the
// transpose.
bool leaves_transpose(const Graph& graph, ValueId value) {
  bool is_viewed = false;
  for (std::size_t steps = 0; steps < kMostNodes; ++steps) {
    const Type& type = graph.type(value);
    is_viewed = is_viewed || (type.has_rank() && type.rank() != kAttentionAxes);
    const std::vector<Use>& uses = graph.uses(value);
    if (uses.size() + (graph.is_output(value) ? 1 : 0) != 1) {
      return is_viewed && std::none_of(uses.begin(), uses.end(), [&](Use use) {
               return views_operand(graph.node(use.node));
             });
    }
    if (uses.empty()) return true;
    const Node& node = graph.node(uses[0].node);
    if (!is_view(node)) return is_viewed || is_op(node, "Gemm") || is_op(node, "MatMul");
    value = node.outputs[0];
  }
  return false;
}

// What is computed behind the transpose is computed before it.
bool is_kept_behind(const Graph& graph, ValueId transposed) {
  const auto computes = [](const Node& n) { return is_elementwise(n) || is_rounding(n); };
  return leaves_transpose(graph, transposed) &&
         !leads_to(graph, transposed, computes, /*through_moves=*/true);
}

// Whether it reads another transpose, of which the plugin may make one with it.
bool follows_transpose(const Graph& graph, const Node& transpose) {
  const Node* node = producer(graph, transpose.input(0));
  while (node != nullptr && is_view(*node) && graph.type(node->input(0)).has_rank() &&
         graph.type(node->input(0)).rank() == kAttentionAxes) {
    node = producer(graph, node->input(0));
  }
  return node != nullptr && is_op(*node, "Transpose");
}

// Whether nothing but factors and summands that are numbers stands between the value and such a
// transpose, and nothing else reads what they give.
bool is_swapped(const Graph& graph, ValueId value) {
  for (std::size_t steps = 0; steps < kMostNodes; ++steps) {
    const Node* node = producer(graph, value);
    if (node == nullptr || !has_one_reader(graph, value)) return false;
    if (swaps_places_and_heads(*node)) return !follows_transpose(graph, *node);
    if (!is_elementwise(*node)) return false;
    // As the first operand it is spread over the shape of the second.
    const auto is_number = [&](std::size_t i) {
      const Tensor* constant = node->input(i).valid() ? graph.constant(node->input(i)) : nullptr;
      return i == 1 && constant != nullptr && constant->count() == 1;
    };
    ValueId next;
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      if (is_number(i)) continue;
      if (next.valid()) return false;
      next = node->inputs[i];
    }
    value = next;
  }
  return false;
}

bool is_attention(const Graph& graph, const Node& node, std::size_t axes) {
  const auto& shape = graph.type(node.input(0)).shape;
  return is_op(node, "Attention") && shape && shape->size() == axes;
}

// The queries of the attention whose result the node gives, if it is one.
ValueId queries_of(const Graph& graph, const Node& node) {
  if (is_attention(graph, node, kAttentionAxes)) return node.input(0);
  const Node* softmax = is_op(node, "MatMul") ? softmax_of(graph, node.input(0)) : nullptr;
  ValueId queries;
  if (softmax == nullptr) return queries;
  is_computed_of(
      graph, softmax->input(0),
      [&](const Node& n) {
        if (!is_op(n, "MatMul")) return false;
        queries = n.input(0);
        return true;
      },
      /*through_rounding=*/true);
  return queries;
}

// The plugin makes one kernel of an attention and the transposes around it that have one reader.
// The kernel writes its result over the queries where both have one shape. That is right where it
// transposes both or neither.
bool transposes_one_side(const Graph& graph, const Node& product) {
  const ValueId queries = queries_of(graph, product);
  if (!queries.valid() || !product.output(0).valid()) return false;
  const auto turns = [&](const Node& n) { return turns_four_axes(graph, n); };
  const bool in = is_computed_of(graph, queries, turns, /*through_rounding=*/true);
  const bool out = leads_to(graph, product.outputs[0], turns);
  if (!in && !out) return false;
  const std::optional<Use> use = sole_use(graph, product.outputs[0]);
  const bool joins_out = use && swaps_places_and_heads(graph.node(use->node)) &&
                         is_kept_behind(graph, graph.node(use->node).outputs[0]);
  return !joins_out || !is_swapped(graph, queries);
}

// With three axes it has the transposes of both sides within itself, and that of its result is one
// of the kernel where its readers leave it alone.
bool gives_transpose_away(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  return node != nullptr && is_attention(graph, *node, 3) && node->output(0) == value &&
         !is_kept_behind(graph, value);
}

// The weights of an attention of which Einsum computes a part, and may transpose what it reads or
// gives: nothing is made one kernel with it.
bool is_weights_of_einsum(const Graph& graph, const Node& node, ValueId operand) {
  const Node* softmax = softmax_of(graph, operand);
  if (softmax == nullptr) return false;
  if (is_op(node, "Einsum")) return true;
  return is_op(node, "MatMul") &&
         is_computed_of(graph, softmax->input(0), [](const Node& n) { return is_op(n, "Einsum"); });
}

// The plugin makes two transposes before a recurrent op one with it, also where others read what
// stands between them.
bool is_turned_twice(const Graph& graph, const Node& node, ValueId operand) {
  constexpr std::string_view kRecurrent[] = {"GRU", "LSTM", "RNN"};
  const Node* last = producer(graph, operand, "Transpose");
  if (!is_among(node, kRecurrent) || last == nullptr) return false;
  return producer(graph, last->input(0), "Transpose") != nullptr &&
         !sole_use(graph, last->input(0));
}

// Whether the operand is that of a transpose, or the queries, of such an attention.
bool is_side_of_attention(const Graph& graph, const Node& node, ValueId operand) {
  if (turns_four_axes(graph, node)) {
    return is_computed_of(
        graph, operand, [&](const Node& n) { return transposes_one_side(graph, n); },
        /*through_rounding=*/true);
  }
  if (is_op(node, "Attention")) return transposes_one_side(graph, node);
  return is_op(node, "MatMul") && leads_to(graph, node.outputs[0], [&](const Node& n) {
           return is_op(n, "Softmax") && leads_to(graph, n.outputs[0], [&](const Node& product) {
                    return transposes_one_side(graph, product);
                  });
         });
}

// The plugin makes one kernel of an attention and what is computed of its result. It has none for
// Mish, and crashes for a difference or a quotient of results that several read.
bool must_not_join_attention(const Graph& graph, const Node& node, ValueId operand) {
  constexpr std::string_view kApart[] = {"Div", "Mish", "Sub"};
  if (!is_among(node, kApart)) return false;
  if (node.input(1).valid() && graph.constant(node.input(1)) != nullptr) return false;
  return comes_from_attention(graph, operand);
}

// x times tanh(softplus(x)).
bool is_mish_of(const Graph& graph, const Node& node, ValueId x) {
  return is_op(node, "Mul") && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
           const Node* tanh = producer(graph, v, "Tanh");
           const Node* softplus = tanh ? producer(graph, tanh->input(0), "Softplus") : nullptr;
           return softplus != nullptr && softplus->input(0) == x;
         });
}

// With one thread the plugin makes one kernel of products and what is computed between them, and
// has none for Mish.
bool starts_mish(const Graph& graph, const Node& node, ValueId operand) {
  const auto leads_to_tanh = [&] {
    const std::optional<Use> use = sole_use(graph, node.outputs[0]);
    return use && is_op(graph.node(use->node), "Tanh");
  };
  const bool starts = is_op(node, "Mish") || is_mish_of(graph, node, operand) ||
                      (is_op(node, "Softplus") && leads_to_tanh());
  return starts && is_computed_of(graph, operand, [](const Node& n) {
           return is_op(n, "MatMul") || is_op(n, "Gemm");
         });
}

// Whether the node, or one behind it, takes a constant of several elements, and no result on the
// way has another shape than the operand.
bool leads_to_constants(const Graph& graph, ValueId operand, const Node& first) {
  const auto& shape = graph.type(operand).shape;
  return search(&first, [&](const Node& node, const auto& add) {
    if (!is_elementwise(node) || graph.type(node.outputs[0]).shape != shape) return false;
    for (const Use& use : graph.uses(node.outputs[0])) add(&graph.node(use.node));
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      const Tensor* constant = v.valid() ? graph.constant(v) : nullptr;
      return constant != nullptr && constant->count() > 1;
    });
  });
}

// The plugin computes constants of channels with what reduces three axes to two, and takes others
// of them than the channel's.
bool reduces_three_axes(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  if (node == nullptr || !node->domain.empty()) return false;
  if (!node->op.starts_with("Reduce") && !node->op.starts_with("Global")) return false;
  const Type& type = graph.type(node->input(0));
  return !type.shape || type.rank() == 3;
}

// The plugin makes the step of a convolution of single elements one of the elementwise ops before
// it, as far as a node that has one result.
bool must_not_step_before(const Graph& graph, const Node& node) {
  const auto is_one = [](std::int64_t n) { return n == 1; };
  if (!is_op(node, "Conv") || !node.has("strides")) return false;
  const std::vector<std::int64_t> strides = node.attr_ints("strides");
  if (std::all_of(strides.begin(), strides.end(), is_one)) return false;
  const auto& kernel = graph.type(node.input(1)).shape;
  const bool is_pointwise =
      kernel && std::all_of(kernel->begin() + 2, kernel->end(),
                            [](const Dim& dim) { return dim.is_known() && dim.value() == 1; });
  if (!is_pointwise) return false;
  // With padding it writes more than it has room for.
  const std::vector<std::int64_t> pads = node.attr_ints("pads");
  if (std::any_of(pads.begin(), pads.end(), [](std::int64_t n) { return n != 0; })) return true;
  return is_computed_of(graph, node.input(0), [](const Node& n) { return n.outputs.size() > 1; });
}

// It crashes, too, where what is computed of the result with another value that a node makes is
// transposed.
bool joins_attention_and_turns(const Graph& graph, const Node& node, std::size_t at) {
  if (!is_elementwise(node) || !node.output(0).valid()) return false;
  bool joins = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    joins = joins || (i != at && producer(graph, node.input(i)) != nullptr);
  }
  return joins && comes_from_attention(graph, node.inputs[at]) &&
         leads_to(graph, node.outputs[0], [](const Node& n) { return is_op(n, "Transpose"); });
}

// A transpose before an op with a layout of its own may be no more than that layout, and then reads
// the operand where it lies. The plugin puts it elsewhere for those who read it in another shape.
bool turns_what_is_viewed(const Graph& graph, const Node& node, ValueId operand) {
  constexpr std::string_view kOfLayouts[] = {"AveragePool", "Conv", "ConvTranspose", "MaxPool",
                                             "Resize"};
  if (!is_op(node, "Transpose") || !node.output(0).valid()) return false;
  const std::vector<Use>& uses = graph.uses(operand);
  const bool is_viewed = std::any_of(uses.begin(), uses.end(), [&](Use use) {
    return use.index == 0 && op_facts(graph.node(use.node)).moves == Moves::kView;
  });
  return is_viewed &&
         leads_to(graph, node.outputs[0], [&](const Node& n) { return is_among(n, kOfLayouts); });
}

// The plugin makes one kernel of a product and a PRelu behind it, and has none for slopes that are
// not those of the last axis.
bool slopes_across_product(const Graph& graph, const Node& node) {
  const Tensor* slopes = is_op(node, "PRelu") ? graph.constant(node.input(1)) : nullptr;
  if (slopes == nullptr || slopes->count() == 1 || slopes->dims().back() != 1) return false;
  return is_computed_of(graph, node.input(0), [](const Node& n) { return is_op(n, "MatMul"); });
}

// In a graph that quantises the plugin makes one kernel of a product and the factors and summands
// behind it, and has none for those that are not one for all, or of the last axis.
bool scales_product_by_place(const Graph& graph, const Node& node, ValueId operand) {
  constexpr std::string_view kScaling[] = {"Add", "Div", "Mul", "Sub"};
  const bool by_place =
      is_among(node, kScaling) &&
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
        const Tensor* factors = v.valid() ? graph.constant(v) : nullptr;
        return factors != nullptr && factors->count() > 1 && factors->dims().back() == 1;
      });
  return by_place && is_computed_of(
                         graph, operand, [](const Node& n) { return is_op(n, "MatMul"); },
                         /*through_rounding=*/true);
}

// In a graph that quantises the plugin moves the scale of a product behind a view, and does not
// compile one that ends in an axis of 1.
bool ends_product_in_one(const Graph& graph, const Node& node, ValueId operand) {
  if (op_facts(node).moves != Moves::kView || !node.output(0).valid()) return false;
  const Type& type = graph.type(node.outputs[0]);
  return type.has_rank() && type.rank() > 3 && type.shape->back() == Dim(1) &&
         is_computed_of(graph, operand, [](const Node& n) { return is_op(n, "MatMul"); });
}

// A constant, dequantised or not.
bool is_fixed(const Graph& graph, ValueId v) {
  const Node* scaled = producer(graph, v, "DequantizeLinear");
  const ValueId numbers = scaled != nullptr ? scaled->input(0) : v;
  return numbers.valid() && graph.constant(numbers) != nullptr;
}

// In such a graph it makes one kernel of a sum with a constant and the rounding behind it, which
// takes one channel for as many as the constant has.
bool rounds_what_may_be_repeated(const Graph& graph, const Node& node, ValueId operand) {
  const Node* sum = is_rounding(node) ? producer(graph, operand) : nullptr;
  constexpr std::string_view kSums[] = {"Add", "Sub"};
  if (sum == nullptr || !is_among(*sum, kSums)) return false;
  const bool fixed_first = is_fixed(graph, sum->input(0));
  if (!fixed_first && !is_fixed(graph, sum->input(1))) return false;
  const auto& constant = graph.type(sum->input(fixed_first ? 0 : 1)).shape;
  const auto& other = graph.type(sum->input(fixed_first ? 1 : 0)).shape;
  if (!constant || !other) return true;
  const std::size_t axes = std::min(constant->size(), other->size());
  for (std::size_t i = 1; i <= axes; ++i) {
    const bool is_one = (*constant)[constant->size() - i] == Dim(1);
    if (!is_one && !(*other)[other->size() - i].is_known()) return true;
  }
  return false;
}

// In such a graph it makes what is computed of bytes and a constant a step of bytes, and crashes
// where the bytes are a Concat's.
bool may_stay_quantized(const Graph& graph, const Node& node, ValueId operand) {
  constexpr std::string_view kScaling[] = {"Add", "Div", "Mul", "Sub"};
  return is_among(node, kScaling) && !is_fixed(graph, operand) &&
         producer(graph, operand, "DequantizeLinear") != nullptr &&
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return is_fixed(graph, v); });
}

// In such a graph it takes a summand or factor of a product of sizes for one of a tensor of bytes.
bool changes_product_of_integers(const Graph& graph, const Node& node, ValueId operand) {
  constexpr std::string_view kScaling[] = {"Add", "Div", "Mul", "Sub"};
  const Node* cast = producer(graph, operand, "Cast");
  return is_among(node, kScaling) && cast != nullptr &&
         producer(graph, cast->input(0), "ReduceProd") != nullptr;
}

// Of Sigmoid and the product of both, which the plugin takes for one op.
bool is_read_by_silu(const Graph& graph, ValueId value) {
  const std::vector<Use>& uses = graph.uses(value);
  return uses.size() == 2 && !graph.is_output(value) &&
         std::any_of(uses.begin(), uses.end(), [&](Use use) {
           const Node& node = graph.node(use.node);
           if (!is_op(node, "Sigmoid") && !is_op(node, "HardSigmoid")) return false;
           const std::optional<Use> next = sole_use(graph, node.outputs[0]);
           return next && is_op(graph.node(next->node), "Mul") &&
                  std::any_of(uses.begin(), uses.end(),
                              [&](Use other) { return other.node == next->node; });
         });
}

// Whether another convolution has the same operands, or one of very many may: the plugin makes one
// of both, and adds the bias behind it.
bool has_twin(const Graph& graph, const Node& conv) {
  const std::vector<Use>& uses = graph.uses(conv.input(0));
  if (uses.size() > kMostNodes) return true;
  return std::any_of(uses.begin(), uses.end(), [&](Use use) {
    const Node& other = graph.node(use.node);
    return &other != &conv && is_op(other, "Conv") && other.input(1) == conv.input(1);
  });
}

// In such a graph, of a convolution of bytes whose sizes are open, or that a body holds, the plugin
// writes the first of several readers' results over its own.
bool forks_convolution_of_bytes(const Graph& graph, ValueId operand, bool is_body) {
  const Node* conv = producer(graph, operand, "Conv");
  return conv != nullptr && (is_body || !graph.type(operand).is_static()) &&
         is_dequantized(graph, conv->input(0)) &&
         producer(graph, conv->input(1), "DequantizeLinear") != nullptr &&
         (has_twin(graph, *conv) ||
          (!has_one_reader(graph, operand) && !is_read_by_silu(graph, operand)));
}

bool needs_barrier(const Graph& graph, const Node& node, std::size_t at, bool scaled,
                   bool is_body) {
  const ValueId operand = node.inputs[at];
  if (!operand.valid() || graph.constant(operand) != nullptr ||
      !is_floating(graph.type(operand).dtype)) {
    return false;
  }
  if (producer(graph, operand, "MaxPool") != nullptr && leads_to_falling(graph, node)) return true;
  if (reduces_three_axes(graph, operand) && leads_to_constants(graph, operand, node)) return true;
  if (scaled && (may_stay_quantized(graph, node, operand) ||
                 forks_convolution_of_bytes(graph, operand, is_body) ||
                 rounds_what_may_be_repeated(graph, node, operand) ||
                 scales_product_by_place(graph, node, operand) ||
                 changes_product_of_integers(graph, node, operand) ||
                 (at == 0 && ends_product_in_one(graph, node, operand)))) {
    return true;
  }
  if (joins_attention_and_turns(graph, node, at)) return true;
  if (gives_transpose_away(graph, operand)) return true;
  if (at > 0) return false;
  if (must_not_step_before(graph, node) || slopes_across_product(graph, node)) return true;
  if (must_not_join_attention(graph, node, operand)) return true;
  if (is_side_of_attention(graph, node, operand)) return true;
  if (starts_mish(graph, node, operand) || is_turned_twice(graph, node, operand)) return true;
  if (is_weights_of_einsum(graph, node, operand)) return true;
  if (turns_what_is_viewed(graph, node, operand)) return true;
  return (is_op(node, "Conv") && is_scaled_by_place(graph, operand)) ||
         (scaled && must_keep_scale(graph, node));
}

bool has_scales(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const std::vector<const Graph*> bodies = Graph::subgraphs(graph.node(id));
    return is_rounding(graph.node(id)) ||
           std::any_of(bodies.begin(), bodies.end(),
                       [](const Graph* body) { return has_scales(*body); });
  });
}

std::optional<Graph> with_barriers(const Graph& graph, bool scaled, bool is_body) {
  std::optional<Graph> result;
  std::map<ValueId, ValueId> behind;
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!needs_barrier(graph, node, i, scaled, is_body)) continue;
      if (!result) result = graph;
      ValueId& value = behind[node.inputs[i]];
      if (!value.valid()) {
        const NodeId barrier = result->add_node(kLoweringDomain, kBarrier, {node.inputs[i]}, {""});
        value = result->node(barrier).outputs[0];
        result->set_type(value, graph.type(node.inputs[i]));
      }
      result->set_input(id, i, value);
    }
    for (const auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute);
      std::optional<Graph> changed;
      if (body != nullptr) changed = with_barriers(**body, scaled, /*is_body=*/true);
      if (!changed) continue;
      if (!result) result = graph;
      result->edit_subgraph(id, name, [&](Graph& inner) { inner = std::move(*changed); });
    }
  }
  return result;
}

}  // namespace

std::optional<Graph> with_barriers(const Graph& graph) {
  return with_barriers(graph, has_scales(graph), /*is_body=*/false);
}

}  // namespace xrt::openvino
