// SPDX-License-Identifier: Apache-2.0
// A Pad by zeros in front of convolutions becomes part of their padding.
//
// Only where it pads nothing but the spatial axes, by constant and non-negative amounts, and where
// convolutions alone read it. A MaxPool must not take it: it pads with −∞, not with zeros.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;

bool is_zero(const Graph& graph, ValueId v) {
  if (!v.valid()) return true;
  const Tensor* t = graph.constant(v);
  if (t == nullptr || t->dtype() == DType::kString) return false;
  const auto* bytes = t->data<std::uint8_t>();
  return std::all_of(bytes, bytes + t->bytes(), [](std::uint8_t b) { return b == 0; });
}

// Amounts before and after each spatial axis, in Conv's order.
std::optional<Ints> spatial_zeros(const Graph& graph, const Node& pad) {
  const Type& type = graph.type(pad.input(0));
  const Tensor* amounts = graph.constant(pad.input(1));
  if (pad.attr_string("mode", "constant") != "constant" || !type.has_rank() || type.rank() < 3 ||
      amounts == nullptr || !is_zero(graph, pad.input(2))) {
    return std::nullopt;
  }
  const auto rank = static_cast<std::int64_t>(type.rank());
  Ints axes;
  if (pad.input(3).valid()) {
    const Tensor* given = graph.constant(pad.input(3));
    if (given == nullptr) return std::nullopt;
    axes = given->to_int64();
  } else {
    for (std::int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  const Ints values = amounts->to_int64();
  if (values.size() != 2 * axes.size()) return std::nullopt;
  const auto spatial = static_cast<std::size_t>(rank - 2);
  Ints pads(2 * spatial, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i];
    const std::int64_t before = values[i];
    const std::int64_t after = values[i + axes.size()];
    if (axis < 0 || axis >= rank || before < 0 || after < 0) return std::nullopt;
    if (axis < 2 && (before != 0 || after != 0)) return std::nullopt;
    if (axis < 2) continue;
    pads[static_cast<std::size_t>(axis - 2)] = before;
    pads[static_cast<std::size_t>(axis - 2) + spatial] = after;
  }
  return pads;
}

bool takes_pads(const Graph& graph, const Use& use, std::size_t count) {
  const Node& node = graph.node(use.node);
  if (use.index != 0 || !node.domain.empty() || node.op != "Conv") return false;
  const Ints own = node.attr_ints("pads");
  return !node.has("auto_pad") && (own.empty() || own.size() == count);
}

bool fold_pad(Graph& graph, NodeId id) {
  const Node& pad = graph.node(id);
  if (!pad.domain.empty() || pad.op != "Pad" || !pad.output(0).valid()) return false;
  const ValueId out = pad.outputs[0];
  const auto zeros = spatial_zeros(graph, pad);
  if (!zeros || graph.is_output(out) || graph.uses(out).empty()) return false;
  const std::vector<Use> uses = graph.uses(out);
  for (const Use& use : uses) {
    if (!takes_pads(graph, use, zeros->size())) return false;
  }
  const ValueId x = pad.inputs[0];
  for (const Use& use : uses) {
    Ints pads = *zeros;
    const Ints own = graph.node(use.node).attr_ints("pads");
    for (std::size_t i = 0; i < own.size(); ++i) pads[i] += own[i];
    graph.set_attribute(use.node, "pads", pads);
    graph.set_input(use.node, 0, x);
  }
  graph.remove_node(id);
  return true;
}

}  // namespace

bool fold_pads(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.topological_order()) {
    changed = fold_pad(graph, id) || edit_subgraphs(graph, id, fold_pads) || changed;
  }
  return changed;
}

}  // namespace xrt
