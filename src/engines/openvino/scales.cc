// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/scales.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "engines/openvino/lowerings.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/op_facts.h"

namespace xrt::openvino {
namespace {

// So many nodes are looked at on the way from a node to what is dequantised.
constexpr int kMostSteps = 16;

template <std::size_t N>
bool is_among(const Node& node, const std::string_view (&ops)[N]) {
  return node.domain.empty() && std::find(std::begin(ops), std::end(ops), node.op) != std::end(ops);
}

// Ops across which the plugin moves scales, of their first operand or of any.
bool passes_scales(const Node& node) {
  constexpr std::string_view kPassing[] = {"Clip",      "Concat", "Identity", "LeakyRelu",
                                           "MaxPool",   "PRelu",  "Pad",      "Relu",
                                           "ReduceMax", "Resize", "Abs"};
  return op_facts(node).moves != Moves::kNo || is_among(node, kPassing);
}

// Whether some node that `wanted` takes makes the value, or what passes_scales() made it of.
template <typename Wanted>
bool comes_from(const Graph& graph, ValueId value, const Wanted& wanted, int steps = kMostSteps) {
  const Node* node = steps > 0 ? producer(graph, value) : nullptr;
  if (node == nullptr) return false;
  if (wanted(*node)) return true;
  if (!passes_scales(*node)) return false;
  if (node->op != "Concat") return comes_from(graph, node->input(0), wanted, steps - 1);
  return std::any_of(node->inputs.begin(), node->inputs.end(),
                     [&](ValueId v) { return comes_from(graph, v, wanted, steps / 2); });
}

bool is_dequantized(const Graph& graph, ValueId value) {
  return comes_from(graph, value, [](const Node& n) { return is_op(n, "DequantizeLinear"); });
}

// A factor for each channel, or for each place along another axis.
bool is_scaled_by_many(const Graph& graph, ValueId value) {
  return comes_from(graph, value, [&](const Node& n) {
    if (is_op(n, "BatchNormalization")) return true;
    constexpr std::string_view kScaling[] = {"Add", "Div", "Mul", "Sub"};
    return is_among(n, kScaling) && std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
             const Tensor* constant = graph.constant(v);
             return constant != nullptr && constant->count() > 1;
           });
  });
}

// By any factor, also that of a product of what is dequantised.
bool is_scaled(const Graph& graph, ValueId value) {
  return comes_from(graph, value, [&](const Node& n) {
    constexpr std::string_view kProducts[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
    if (is_among(n, kProducts)) return is_dequantized(graph, n.input(0));
    constexpr std::string_view kScaling[] = {"Div", "Mul"};
    const bool by_constant = is_among(n, kScaling) &&
                             std::any_of(n.inputs.begin(), n.inputs.end(),
                                         [&](ValueId v) { return graph.constant(v) != nullptr; });
    return by_constant || is_op(n, "DequantizeLinear");
  });
}

bool pads_with_other_than_zero(const Graph& graph, const Node& node) {
  if (need_string(node, "mode") != "constant" || !node.input(2).valid()) return false;
  return scalar_constant(graph, node.input(2)) != 0.0F;
}

// What is averaged may stay in bytes where the next op rounds to bytes anyway. The plugin takes
// padding for bytes of zero, and averages three axes of few channels wrongly.
bool averages_to_floats(const Graph& graph, const Node& node) {
  const bool counts_padding =
      node.has("pads") && node.has("count_include_pad") && need_int(node, "count_include_pad") != 0;
  const Type& type = graph.type(node.input(0));
  if (counts_padding || !type.shape || type.rank() <= 3) return true;
  const std::vector<Use>& uses = graph.uses(node.outputs[0]);
  return graph.is_output(node.outputs[0]) || !std::all_of(uses.begin(), uses.end(), [&](Use use) {
           return is_op(graph.node(use.node), "QuantizeLinear");
         });
}

bool is_mean_of(const Graph& graph, ValueId value, ValueId of) {
  const Node* mean = producer(graph, value, "ReduceMean");
  return mean != nullptr && mean->input(0) == of;
}

// Whether the first operand must come with its scale.
bool must_keep_scale(const Graph& graph, const Node& node) {
  constexpr std::string_view kNormalizations[] = {"GroupNormalization", "InstanceNormalization",
                                                  "LayerNormalization",
                                                  "MeanVarianceNormalization"};
  constexpr std::string_view kAverages[] = {"AveragePool", "GlobalAveragePool"};
  const ValueId x = node.input(0);
  if (is_among(node, kNormalizations) ||
      // The first step of one that is written out.
      (is_op(node, "Sub") && is_mean_of(graph, node.input(1), x))) {
    return is_scaled(graph, x);
  }
  if (is_among(node, kAverages)) {
    return is_scaled_by_many(graph, x) ||
           (is_dequantized(graph, x) && averages_to_floats(graph, node));
  }
  // The bounds are rounded to bytes.
  if (is_op(node, "Clip")) return is_dequantized(graph, x);
  if (is_op(node, "Pad")) return pads_with_other_than_zero(graph, node) && is_scaled(graph, x);
  // Its axis goes, that of the scales stays.
  if (is_op(node, "Gather")) {
    const Type& indices = graph.type(node.input(1));
    return indices.shape && indices.rank() == 0 && is_scaled_by_many(graph, x);
  }
  return false;
}

}  // namespace

std::optional<Graph> with_kept_scales(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  const bool has_scales = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return is_op(graph.node(id), "DequantizeLinear");
  });
  if (!has_scales) return std::nullopt;
  std::optional<Graph> result;
  std::map<ValueId, ValueId> kept;
  for (const NodeId id : nodes) {
    if (!must_keep_scale(graph, graph.node(id))) continue;
    if (!result) result = graph;
    const ValueId x = graph.node(id).input(0);
    ValueId& copy = kept[x];
    if (!copy.valid()) {
      const NodeId made = result->add_node(kLoweringDomain, kKeepScale, {x}, {""});
      copy = result->node(made).outputs[0];
      result->set_type(copy, graph.type(x));
    }
    result->set_input(id, 0, copy);
  }
  return result;
}

}  // namespace xrt::openvino
