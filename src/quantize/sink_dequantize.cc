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
#include <string_view>

#include "ir/rewrite.h"
#include "ops/op_facts.h"
#include "ops/shape_inference.h"

namespace xrt {
namespace {

bool is_op(const Node* node, std::string_view op) {
  return node != nullptr && node->domain.empty() && node->op == op;
}

const Node* producer(const Graph& graph, ValueId id) {
  if (!id.valid() || graph.value(id).origin != Origin::kNode) return nullptr;
  return &graph.node(graph.value(id).producer);
}

bool same_constant(const Graph& graph, ValueId a, ValueId b) {
  if (a == b) return true;
  if (!a.valid() || !b.valid()) return false;
  const Tensor *x = graph.constant(a), *y = graph.constant(b);
  return x != nullptr && y != nullptr && x->dtype() == y->dtype() && x->count() == 1 &&
         y->count() == 1 && x->reshaped({}).identical(y->reshaped({}));
}

// A DequantizeLinear of eight bits by one constant scale above zero.
bool is_plain(const Graph& graph, const Node* dq) {
  if (!is_op(dq, "DequantizeLinear")) return false;
  const DType from = graph.type(dq->input(0)).dtype;
  const Tensor* scale = graph.constant(dq->input(1));
  return (from == DType::kUInt8 || from == DType::kInt8) && scale != nullptr &&
         scale->count() == 1 && scale->dtype() == DType::kFloat32 && scale->data<float>()[0] > 0 &&
         graph.type(dq->output(0)).dtype == DType::kFloat32 && dq->attr_int("block_size", 0) == 0 &&
         (!dq->input(2).valid() || graph.constant(dq->input(2)) != nullptr);
}

bool same_scale(const Graph& graph, const Node& a, const Node& b) {
  if (!same_constant(graph, a.input(1), b.input(1))) return false;
  if (!a.input(2).valid() && !b.input(2).valid()) return true;
  return same_constant(graph, a.input(2), b.input(2));
}

bool moves(const Node& node) {
  if (is_op(&node, "Concat")) return true;
  const Moves moves = op_facts(node).moves;
  return (moves == Moves::kView || moves == Moves::kPermute || moves == Moves::kSelect) &&
         !(node.op == "MaxPool" && node.output(1).valid());
}

bool wanted(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId out) {
    if (!out.valid()) return false;
    const auto& uses = graph.uses(out);
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      const Node& reader = graph.node(use.node);
      return use.index == 0 && (is_op(&reader, "QuantizeLinear") || moves(reader));
    });
  });
}

bool sink(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!moves(node) || !wanted(graph, node)) return false;
  const std::size_t count = node.op == "Concat" ? node.inputs.size() : 1;
  const Node* first = producer(graph, node.input(0));
  for (std::size_t i = 0; i < count; ++i) {
    const Node* dq = producer(graph, node.input(i));
    if (!is_plain(graph, dq) || !same_scale(graph, *dq, *first) ||
        graph.type(dq->input(0)).dtype != graph.type(first->input(0)).dtype) {
      return false;
    }
  }
  const std::vector<ValueId> parameters(first->inputs.begin() + 1, first->inputs.end());
  const DType dtype = graph.type(first->input(0)).dtype;
  for (std::size_t i = 0; i < count; ++i) {
    graph.set_input(id, i, producer(graph, node.input(i))->input(0));
  }
  for (const ValueId out : node.outputs) {
    if (!out.valid()) continue;
    const std::string name = graph.value(out).name;
    const Type type = graph.type(out);
    std::vector<ValueId> inputs = {out};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    const bool is_output = graph.is_output(out);
    const ValueId dq = graph.add_op("DequantizeLinear", inputs, {}, name + "/dequantized");
    graph.replace_uses(out, dq);
    graph.set_input(graph.value(dq).producer, 0, out);
    Type quantized = type;
    quantized.dtype = dtype;
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
  const Node& q = graph.node(id);
  if (!is_op(&q, "QuantizeLinear")) return false;
  const Node* dq = producer(graph, q.input(0));
  if (!is_plain(graph, dq) || !same_scale(graph, q, *dq) ||
      graph.type(q.output(0)).dtype != graph.type(dq->input(0)).dtype) {
    return false;
  }
  replace_value(graph, q.output(0), dq->input(0));
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
