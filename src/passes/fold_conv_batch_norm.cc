// SPDX-License-Identifier: Apache-2.0
// A BatchNormalization for inference is s·x + t per channel, and so are Mul, Div, Add and Sub by a
// constant per channel. Behind a convolution such a node goes into the convolution's weights and
// bias, behind another BatchNormalization into its scale and bias:
//
//   s·(W ∗ x + b) + t = (s·W) ∗ x + (s·b + t)
//
// and in front of a convolution likewise, per input channel. With padding it must not if t ≠ 0: the
// border would be padded with zeros that got no t.
//
// The factor that ends a GELU, x·(1 + erf(x/√2))/2, stays where it is: engines that have the whole
// formula as one kernel know it by that factor.
//
// Only where weights and s, t are constants of one floating type (float32 or float64), and where
// nobody else reads the value between the two. ConvTranspose is folded where group = 1.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "ir/pattern.h"
#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {
namespace {

struct Affine {
  std::vector<double> scale, shift;  // per channel
};

std::vector<double> as_double(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.count()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = t.dtype() == DType::kFloat32 ? static_cast<double>(t.data<float>()[i])
                                          : t.data<double>()[i];
  }
  return out;
}

Tensor from_double(DType dtype, const Dims& dims, const std::vector<double>& values) {
  Tensor t = Tensor::allocate(dtype, dims);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFloat32) {
      t.data<float>()[i] = static_cast<float>(values[i]);
    } else {
      t.data<double>()[i] = values[i];
    }
  }
  return t;
}

// The constant if it is float32 or float64 and of `dtype`.
const Tensor* floats(const Graph& graph, ValueId v, DType dtype) {
  const Tensor* t = graph.constant(v);
  const bool wide = dtype == DType::kFloat32 || dtype == DType::kFloat64;
  return t != nullptr && wide && t->dtype() == dtype ? t : nullptr;
}

// s and t of a BatchNormalization.
std::optional<Affine> affine_of_norm(const Graph& graph, const Node& node, DType dtype) {
  if (node.attr_int("training_mode", 0) != 0 || node.inputs.size() != 5) return std::nullopt;
  std::vector<std::vector<double>> p;
  for (std::size_t i = 1; i < 5; ++i) {
    const Tensor* t = floats(graph, node.inputs[i], dtype);
    if (t == nullptr || t->rank() != 1) return std::nullopt;
    p.push_back(as_double(*t));
    if (p.back().size() != p.front().size()) return std::nullopt;
  }
  const double epsilon = node.attr_float("epsilon", 1e-5F);
  Affine affine;
  for (std::size_t c = 0; c < p[0].size(); ++c) {
    const double scale = p[0][c] / std::sqrt(p[3][c] + epsilon);
    affine.scale.push_back(scale);
    affine.shift.push_back(p[1][c] - p[2][c] * scale);
  }
  return affine;
}

// One number per channel of a value of that rank; nothing where the constant is broadcast another
// way, or would itself give the result its shape.
std::optional<std::vector<double>> per_channel(const Tensor& t, std::int64_t channels,
                                               std::size_t rank) {
  if (t.rank() > rank || rank < 2) return std::nullopt;
  std::vector<double> values = as_double(t);
  if (t.count() == 1) {
    return std::vector<double>(static_cast<std::size_t>(channels), values[0]);
  }
  if (t.rank() + 1 < rank || t.count() != channels) return std::nullopt;
  if (t.dims()[t.rank() + 1 - rank] != channels) return std::nullopt;  // the axis of channels
  return values;
}

// What a node does to its variable input `x`.
struct Step {
  ValueId x;
  Affine affine;
};

std::optional<Step> step_of(const Graph& graph, const Node& node, DType dtype,
                            std::int64_t channels, std::size_t rank) {
  if (!node.domain.empty()) return std::nullopt;
  if (node.op == "BatchNormalization") {
    auto affine = affine_of_norm(graph, node, dtype);
    if (!affine || static_cast<std::int64_t>(affine->scale.size()) != channels) return std::nullopt;
    return Step{node.inputs[0], std::move(*affine)};
  }
  const bool commutes = node.op == "Mul" || node.op == "Add";
  if (!(commutes || node.op == "Div" || node.op == "Sub") || node.inputs.size() != 2) {
    return std::nullopt;
  }
  std::size_t variable = 0;
  if (commutes && graph.constant(node.inputs[0]) != nullptr) variable = 1;
  const Tensor* t = floats(graph, node.inputs[1 - variable], dtype);
  const auto values = t == nullptr ? std::nullopt : per_channel(*t, channels, rank);
  if (!values || !node.inputs[variable].valid()) return std::nullopt;
  Step step{node.inputs[variable], {}};
  for (const double v : *values) {
    step.affine.scale.push_back(node.op == "Mul" ? v : node.op == "Div" ? 1.0 / v : 1.0);
    step.affine.shift.push_back(node.op == "Add" ? v : node.op == "Sub" ? -v : 0.0);
    if (!std::isfinite(step.affine.scale.back()) || !std::isfinite(v)) return std::nullopt;
  }
  return step;
}

// A convolution with constant weights, laid out [outer, inner, elements…].
struct Conv {
  const Tensor* weights = nullptr;
  std::vector<double> bias;  // of out_channels
  std::int64_t group = 1, out_channels = 0;
  bool transposed = false;
};

std::optional<Conv> conv_of(const Graph& graph, const Node& node) {
  Conv conv;
  conv.transposed = is_op(node, "ConvTranspose");
  if (!conv.transposed && !is_op(node, "Conv")) return std::nullopt;
  const Tensor* w = graph.constant(node.input(1));
  if (w == nullptr || w->rank() < 3 || floats(graph, node.input(1), w->dtype()) == nullptr) {
    return std::nullopt;
  }
  conv.weights = w;
  conv.group = node.attr_int("group", 1);
  if (conv.group < 1 || (conv.transposed && conv.group != 1)) return std::nullopt;
  conv.out_channels = w->dims()[conv.transposed ? 1 : 0];
  if (conv.out_channels % conv.group != 0) return std::nullopt;
  conv.bias.assign(static_cast<std::size_t>(conv.out_channels), 0.0);
  if (node.input(2).valid()) {
    const Tensor* b = floats(graph, node.input(2), w->dtype());
    if (b == nullptr || b->count() != conv.out_channels) return std::nullopt;
    conv.bias = as_double(*b);
  }
  return conv;
}

void set_weights(Graph& graph, NodeId id, const Conv& conv, const std::vector<double>& weights,
                 const std::vector<double>& bias) {
  const DType dtype = conv.weights->dtype();
  const std::string name = graph.node(id).name;
  const Tensor w = from_double(dtype, conv.weights->dims(), weights);
  graph.set_input(id, 1, graph.add_constant(name + "/weights_folded", w));
  const Tensor b = from_double(dtype, {conv.out_channels}, bias);
  graph.set_input(id, 2, graph.add_constant(name + "/bias_folded", b));
}

// A step behind a convolution.
bool fold_behind_conv(Graph& graph, NodeId conv_id) {
  const auto conv = conv_of(graph, graph.node(conv_id));
  if (!conv) return false;
  const ValueId between = graph.node(conv_id).output(0);
  const auto step_use = sole_use(graph, between);
  if (!step_use) return false;
  const auto step = step_of(graph, graph.node(step_use->node), conv->weights->dtype(),
                            conv->out_channels, conv->weights->rank());
  if (!step || step->x != between) return false;
  const Affine* affine = &step->affine;
  std::vector<double> weights = as_double(*conv->weights);
  const Dims& dims = conv->weights->dims();
  const auto outer = static_cast<std::size_t>(dims[0]);
  const auto inner = static_cast<std::size_t>(dims[1]);
  const std::size_t block = outer * inner == 0 ? 0 : weights.size() / (outer * inner);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      const double scale = affine->scale[conv->transposed ? i : o];
      double* at = weights.data() + (o * inner + i) * block;
      std::for_each(at, at + block, [scale](double& w) { w *= scale; });
    }
  }
  std::vector<double> bias = conv->bias;
  for (std::size_t c = 0; c < bias.size(); ++c) {
    bias[c] = bias[c] * affine->scale[c] + affine->shift[c];
  }
  set_weights(graph, conv_id, *conv, weights, bias);
  replace_value(graph, graph.node(step_use->node).outputs[0], between);
  graph.remove_node(step_use->node);
  return true;
}

// A step behind a BatchNormalization.
bool fold_behind_norm(Graph& graph, NodeId norm_id) {
  if (!is_op(graph.node(norm_id), "BatchNormalization")) return false;
  const Node& norm = graph.node(norm_id);
  const ValueId between = norm.output(0);
  const auto step_use = sole_use(graph, between);
  const Type& type = graph.type(norm.input(0));
  const Tensor* scale = floats(graph, norm.input(1), type.dtype);
  const Tensor* bias = floats(graph, norm.input(2), type.dtype);
  if (!step_use || norm.attr_int("training_mode", 0) != 0 || !type.has_rank() || scale == nullptr ||
      bias == nullptr || scale->rank() != 1 || bias->count() != scale->count()) {
    return false;
  }
  const auto step =
      step_of(graph, graph.node(step_use->node), type.dtype, scale->count(), type.rank());
  if (!step || step->x != between) return false;
  std::vector<double> s = as_double(*scale);
  std::vector<double> t = as_double(*bias);
  for (std::size_t c = 0; c < s.size(); ++c) {
    s[c] *= step->affine.scale[c];
    t[c] = t[c] * step->affine.scale[c] + step->affine.shift[c];
  }
  const std::string name = norm.name;
  const Dims dims = scale->dims();
  const DType dtype = type.dtype;
  graph.set_input(norm_id, 1,
                  graph.add_constant(name + "/scale_folded", from_double(dtype, dims, s)));
  graph.set_input(norm_id, 2,
                  graph.add_constant(name + "/bias_folded", from_double(dtype, dims, t)));
  replace_value(graph, graph.node(step_use->node).outputs[0], between);
  graph.remove_node(step_use->node);
  return true;
}

bool without_padding(const Node& node) {
  const auto pads = node.attr_ints("pads");
  return !node.has("auto_pad") &&
         std::all_of(pads.begin(), pads.end(), [](std::int64_t p) { return p == 0; });
}

// Whether the value is x·(1 + erf(…)) or x·(1 + tanh(…)).
bool is_gated(const Graph& graph, ValueId value) {
  const Node* product = producer(graph, value);
  if (product == nullptr || !is_op(*product, "Mul")) return false;
  return std::any_of(product->inputs.begin(), product->inputs.end(), [&](ValueId factor) {
    const Node* sum = producer(graph, factor);
    if (sum == nullptr || !is_op(*sum, "Add")) return false;
    return std::any_of(sum->inputs.begin(), sum->inputs.end(), [&](ValueId term) {
      const Node* gate = producer(graph, term);
      return gate != nullptr && (is_op(*gate, "Erf") || is_op(*gate, "Tanh"));
    });
  });
}

// A step in front of a convolution.
bool fold_before_conv(Graph& graph, NodeId step_id) {
  const ValueId between = graph.node(step_id).output(0);
  const auto conv_use = sole_use(graph, between);
  if (!conv_use || !is_op(graph.node(conv_use->node), "Conv") ||
      graph.node(conv_use->node).input(0) != between) {
    return false;
  }
  const auto conv = conv_of(graph, graph.node(conv_use->node));
  if (!conv) return false;
  const Dims& dims = conv->weights->dims();
  const auto step = step_of(graph, graph.node(step_id), conv->weights->dtype(),
                            dims[1] * conv->group, dims.size());
  if (!step) return false;
  const Affine* affine = &step->affine;
  const bool shifts =
      std::any_of(affine->shift.begin(), affine->shift.end(), [](double t) { return t != 0.0; });
  if (shifts && !without_padding(graph.node(conv_use->node))) return false;
  const bool halves =
      std::all_of(affine->scale.begin(), affine->scale.end(), [](double v) { return v == 0.5; });
  if (halves && is_gated(graph, step->x)) return false;
  std::vector<double> weights = as_double(*conv->weights);
  std::vector<double> bias = conv->bias;
  const auto outer = static_cast<std::size_t>(dims[0]);
  const auto inner = static_cast<std::size_t>(dims[1]);
  const auto per_group = outer / static_cast<std::size_t>(conv->group);
  const std::size_t block = outer * inner == 0 ? 0 : weights.size() / (outer * inner);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      const std::size_t channel = o / per_group * inner + i;
      double* at = weights.data() + (o * inner + i) * block;
      for (std::size_t k = 0; k < block; ++k) {
        bias[o] += at[k] * affine->shift[channel];
        at[k] *= affine->scale[channel];
      }
    }
  }
  set_weights(graph, conv_use->node, *conv, weights, bias);
  graph.set_input(conv_use->node, 0, step->x);
  graph.remove_node(step_id);
  return true;
}

bool extra_outputs_unused(const Graph& graph, const Node& node) {
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    const ValueId v = node.outputs[i];
    if (v.valid() && (!graph.uses(v).empty() || graph.is_output(v))) return false;
  }
  return true;
}

}  // namespace

bool fold_conv_batch_norm(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.topological_order()) {
    if (!graph.alive(id) || !extra_outputs_unused(graph, graph.node(id))) continue;
    if (fold_behind_conv(graph, id) || fold_behind_norm(graph, id) || fold_before_conv(graph, id)) {
      changed = true;
    } else {
      changed = edit_subgraphs(graph, id, fold_conv_batch_norm) || changed;
    }
  }
  return changed;
}

}  // namespace xrt
