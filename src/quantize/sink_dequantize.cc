// SPDX-License-Identifier: Apache-2.0
// Rule: op(DQ(x)) = DQ(op(x)) for an op that moves or selects elements, as DQ is monotone and works
// on each element alone; Q(DQ(x)) = x for one scale and zero point. Only per-tensor scales: a moved
// axis would take per-channel scales with it. A Concat needs one scale for all its inputs.
//
// It helps only where a QuantizeLinear or another moving op reads what the op makes; elsewhere it
// would dequantise later for nothing (a MaxPool makes fewer elements, an Expand more), so only then
// it is done.
#include "quantize/sink_dequantize.h"

#include <algorithm>

#include "ir/pattern.h"
#include "ir/rewrite.h"
#include "ops/op_facts.h"
#include "ops/quantized.h"
#include "ops/shape_inference.h"

namespace xrt {
namespace {

bool moves(const Node& node) {
  return is_op(node, "Concat") || (moves_bytes(node) && at_most_once(op_facts(node).moves));
}

bool wanted(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId out) {
    if (!out.valid()) return false;
    const auto& uses = graph.uses(out);
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      const Node& reader = graph.node(use.node);
      return use.index == 0 && (is_op(reader, "QuantizeLinear") || moves(reader));
    });
  });
}

bool sink(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!moves(node) || !wanted(graph, node)) return false;
  const std::size_t count = node.op == "Concat" ? node.inputs.size() : 1;
  const auto first = grid_behind(graph, node.input(0));
  std::vector<ValueId> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto grid = grid_behind(graph, node.input(i));
    if (!grid || !grid->same_steps(*first)) return false;
    bytes.push_back(grid->q);
  }
  const Node dequantize = *producer(graph, node.input(0));
  for (std::size_t i = 0; i < count; ++i) graph.set_input(id, i, bytes[i]);
  for (const ValueId out : node.outputs) {
    if (!out.valid()) continue;
    const std::string name = graph.value(out).name;
    const Type type = graph.type(out);
    std::vector<ValueId> inputs = dequantize.inputs;
    inputs[0] = out;
    const bool is_output = graph.is_output(out);
    const ValueId dq =
        graph.add_op("DequantizeLinear", inputs, dequantize.attributes, name + "/dequantized");
    graph.replace_uses(out, dq);
    graph.set_input(graph.value(dq).producer, 0, out);
    Type quantized = type;
    quantized.dtype = first->dtype;
    graph.set_type(out, std::move(quantized));
    graph.set_type(dq, type);
    if (is_output) {
      graph.set_value_name(out, name + "/quantized");
      graph.set_value_name(dq, name);
    }
  }
  return true;
}

// Q(DQ(x)) with one scale and zero point, and one type, is x.
bool cancel(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto made = grid_made(graph, node);
  const auto from = made ? grid_behind(graph, node.input(0)) : std::nullopt;
  if (!from || !made->same_steps(*from)) return false;
  replace_value(graph, made->q, from->q);
  graph.remove_node(id);
  return true;
}

}  // namespace

bool sink_dequantize(Graph& graph) {
  bool any = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (const NodeId id : graph.topological_order()) {
      if (graph.alive(id)) changed = sink(graph, id) || cancel(graph, id) || changed;
    }
    any = any || changed;
  }
  if (any) infer_shapes(graph);
  return any;
}

}  // namespace xrt
