// SPDX-License-Identifier: Apache-2.0
// Removes nodes that hand their first input on unchanged: Identity, Dropout for inference, a Cast
// to the type it has, a Transpose that keeps the order, a Pad by nothing, reductions of one input,
// and shape ops (Reshape, Flatten, Expand, Slice, …) whose output has provably the input's shape.
//
// Provably: every dimension is the same number or the same symbol. Two unknown dimensions prove
// nothing, and a Slice of equal shape may still reverse.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "ir/rewrite.h"
#include "ops/op_facts.h"
#include "passes/passes.h"

namespace xrt {
namespace {

bool same_shape(const Type& a, const Type& b) {
  if (!a.has_rank() || !b.has_rank() || a.dtype != b.dtype) return false;
  return *a.shape == *b.shape &&
         std::all_of(a.shape->begin(), a.shape->end(), [](const Dim& d) { return d != Dim(); });
}

bool all_equal(const Tensor* tensor, std::int64_t value) {
  if (tensor == nullptr || !is_integer(tensor->dtype())) return false;
  const auto elements = tensor->to_int64();
  return std::all_of(elements.begin(), elements.end(),
                     [value](std::int64_t v) { return v == value; });
}

bool is_inference_dropout(const Graph& graph, const Node& node) {
  const ValueId mask = node.output(1);
  if (mask.valid() && (!graph.uses(mask).empty() || graph.is_output(mask))) return false;
  const ValueId training = node.input(2);
  if (!training.valid()) return true;
  const Tensor* constant = graph.constant(training);
  return constant != nullptr && constant->dtype() == DType::kBool && constant->count() == 1 &&
         constant->data<std::uint8_t>()[0] == 0;
}

bool keeps_order(const Node& node) {
  if (!node.has("perm")) return false;
  const auto perm = node.attr_ints("perm");
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool is_identity(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || !node.input(0).valid() || !node.output(0).valid()) return false;
  const Type& in = graph.type(node.inputs[0]);
  const Type& out = graph.type(node.outputs[0]);
  const std::string_view op = node.op;
  if (op == "Identity") return true;
  if (op == "Dropout") return is_inference_dropout(graph, node);
  if (op == "Cast" || op == "CastLike") {
    return in.is_tensor() && in.dtype != DType::kUndefined && in.dtype == out.dtype;
  }
  if (op == "Transpose") return keeps_order(node);
  if (op == "Pad") return all_equal(graph.constant(node.input(1)), 0);
  if (op == "Slice") {
    const ValueId steps = node.input(4);
    return same_shape(in, out) && (!steps.valid() || all_equal(graph.constant(steps), 1));
  }
  constexpr auto kOfOneInput =
      std::to_array<std::string_view>({"Concat", "Max", "Mean", "Min", "Sum"});
  if (std::find(kOfOneInput.begin(), kOfOneInput.end(), op) != kOfOneInput.end()) {
    return node.inputs.size() == 1;
  }
  if (op == "Split") return node.outputs.size() == 1;
  const Moves moves = op_facts(node).moves;
  return (moves == Moves::kView || moves == Moves::kRepeat) && same_shape(in, out);
}

}  // namespace

bool remove_identities(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.topological_order()) {
    if (is_identity(graph, graph.node(id))) {
      const ValueId in = graph.node(id).inputs[0];
      const ValueId out = graph.node(id).outputs[0];
      // A graph input, constant or captured value that is also an output keeps its Identity.
      if (!can_replace_value(graph, out, in)) continue;
      replace_value(graph, out, in);
      graph.remove_node(id);
      changed = true;
    } else {
      changed = edit_subgraphs(graph, id, remove_identities) || changed;
    }
  }
  return changed;
}

}  // namespace xrt
