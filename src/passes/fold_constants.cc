// SPDX-License-Identifier: Apache-2.0
// A node all of whose inputs are constants is computed once, here, by the evaluator.
//
// Not folded: random ops, ops with sub-graphs, graph outputs (they stay computed), DequantizeLinear
// of what engines want quantised, and what would make the program large. A node adds its
// outputs and saves the inputs that nobody else reads. What nodes add beyond that is bounded over
// all passes by the size of the graph's own constants and 64 MB, so that a model of a few bytes
// makes no gigabytes; and an output that is larger than its inputs has at most 16 MB. A node that
// the evaluator refuses stays: it fails, if at all, when it is run.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/work_scope.h"
#include "ir/pattern.h"
#include "ir/rewrite.h"
#include "ops/op_facts.h"
#include "ops/schema.h"
#include "passes/passes.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kMaxGrownBytes = std::size_t{16} << 20;
constexpr std::size_t kFreeGrowth = std::size_t{64} << 20;
// Inputs of ops whose output's size depends on the data (NonZero, Unique), and is bounded by it.
constexpr std::size_t kMaxInputOfUnknown = std::size_t{1} << 20;
// What the evaluator may use, over inputs and outputs.
constexpr std::size_t kWorkBytes = std::size_t{64} << 20;
constexpr std::size_t kWorkFactor = 4;

std::size_t content_bytes(const Tensor& tensor) {
  std::size_t bytes = tensor.bytes();
  if (tensor.dtype() != DType::kString) return bytes;
  const std::string* strings = tensor.strings();
  for (std::int64_t i = 0; i < tensor.count(); ++i) bytes += strings[i].size();
  return bytes;
}

// Bytes of all outputs, nothing where they are not known.
std::optional<std::size_t> output_bytes(const Graph& graph, const Node& node) {
  std::size_t total = 0;
  for (const ValueId v : node.outputs) {
    if (!v.valid()) continue;
    const Type& type = graph.type(v);
    const auto dims = type.static_dims();
    if (!type.is_tensor() || !dims || type.dtype == DType::kString) return std::nullopt;
    total += byte_count(type.dtype, *dims);
  }
  return total;
}

struct InputBytes {
  std::size_t all = 0;    // each input once
  std::size_t saved = 0;  // of those that nobody else reads
};

InputBytes input_bytes(const Graph& graph, NodeId id) {
  std::vector<ValueId> inputs = graph.node(id).inputs;
  const auto before = [](ValueId a, ValueId b) { return a.index < b.index; };
  std::sort(inputs.begin(), inputs.end(), before);
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  InputBytes bytes;
  for (const ValueId v : inputs) {
    if (!v.valid()) continue;
    const std::size_t own = content_bytes(*graph.constant(v));
    bytes.all += own;
    const std::vector<Use>& uses = graph.uses(v);
    const bool is_saved =
        !graph.is_output(v) &&
        std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return use.node == id; });
    if (is_saved) bytes.saved += own;
  }
  return bytes;
}

// Bytes that the program grows by; nothing where that is too much.
std::optional<std::size_t> growth(std::size_t output, const InputBytes& inputs,
                                  const FoldBudget& budget) {
  if (output > inputs.all && output > kMaxGrownBytes) return std::nullopt;
  const std::size_t more = output - std::min(output, inputs.saved);
  if (!budget.has(more)) return std::nullopt;
  return more;
}

// Whether arithmetic element by element in floating point is all that reads a value: no product,
// for which it is a weight, no table that is looked up, and no sum that engines compute on
// quantised operands.
bool is_operand_of_floats(const Graph& graph, ValueId value) {
  std::vector<ValueId> todo{value};
  while (!todo.empty()) {
    const ValueId v = todo.back();
    todo.pop_back();
    if (graph.is_output(v) || graph.uses(v).empty()) return false;
    for (const Use& use : graph.uses(v)) {
      const Node& reader = graph.node(use.node);
      if (use.index == 0 && at_most_once(op_facts(reader).moves) && reader.output(0).valid()) {
        todo.push_back(reader.outputs[0]);
        continue;
      }
      if (!is_elementwise(reader)) return false;
      for (const ValueId other : reader.inputs) {
        if (other.valid() && other != v && producer(graph, other, "DequantizeLinear") != nullptr) {
          return false;
        }
      }
    }
  }
  return true;
}

bool foldable(const Graph& graph, const Node& node) {
  if (node.outputs.empty() || !Graph::subgraphs(node).empty() || !is_deterministic(node)) {
    return false;
  }
  const bool dequantizes = node.domain.empty() && node.op == "DequantizeLinear";
  if (dequantizes && !is_operand_of_floats(graph, node.outputs[0])) return false;
  for (const ValueId v : node.inputs) {
    if (v.valid() && graph.constant(v) == nullptr) return false;
  }
  return std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
    return v.valid() && (graph.is_output(v) || !graph.type(v).is_tensor());
  });
}

Graph one_node_graph(const Graph& graph, const Node& node) {
  Graph single(node.name);
  single.opsets() = graph.opsets();
  std::vector<ValueId> inputs;
  for (const ValueId v : node.inputs) {
    inputs.push_back(v.valid() ? single.add_constant(graph.value(v).name, *graph.constant(v))
                               : ValueId{});
  }
  std::vector<std::string> names;
  for (const ValueId v : node.outputs) {
    names.push_back(v.valid() ? graph.value(v).name + "_folded" : std::string());
  }
  const NodeId id = single.add_node(node.domain, node.op, inputs, names, node.attributes, node.name,
                                    /*omit_empty=*/true);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const ValueId v = single.node(id).outputs[i];
    single.set_type(v, graph.type(node.outputs[i]));
    single.add_output(v);
  }
  return single;
}

bool fold(Graph& graph, NodeId id, const Evaluator& evaluate, FoldBudget& budget) {
  const InputBytes inputs = input_bytes(graph, id);
  const std::optional<std::size_t> known = output_bytes(graph, graph.node(id));
  if (known ? !growth(*known, inputs, budget) : inputs.all > kMaxInputOfUnknown) return false;
  std::vector<Data> results;
  try {
    const std::size_t work = kWorkFactor * (inputs.all + known.value_or(0)) + kWorkBytes;
    const WorkScope scope(std::make_shared<MemoryAccount>(), work);
    results = evaluate(one_node_graph(graph, graph.node(id)));
  } catch (const Error& e) {
    throw_if_interrupted();
    log_debug("not folded: " + graph.node(id).name + ": " + e.what());
    return false;
  }
  const bool tensors = std::all_of(results.begin(), results.end(),
                                   [](const Data& data) { return data.is_tensor(); });
  const std::vector<ValueId> outputs = graph.node(id).outputs;
  const auto wanted = static_cast<std::size_t>(
      std::count_if(outputs.begin(), outputs.end(), [](ValueId v) { return v.valid(); }));
  if (!tensors || results.size() != wanted) return false;
  std::size_t made = 0;
  for (const Data& data : results) made += content_bytes(data.tensor());
  const std::optional<std::size_t> more = growth(made, inputs, budget);
  if (!more) return false;
  budget.take(*more);
  std::size_t next = 0;
  for (const ValueId v : outputs) {
    if (v.valid()) graph.set_constant(v, results[next++].tensor());
  }
  graph.remove_node(id);
  return true;
}

// What only gives a constant other dimensions, or none, shares its elements: a weight that several
// nodes read through Identities stays one.
bool share(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.domain.empty() || op_facts(node).moves != Moves::kView) return false;
  const ValueId in = node.input(0), out = node.output(0);
  if (!out.valid() || node.outputs.size() != 1) return false;
  const Tensor whole = *graph.constant(in);
  if (node.op == "Identity") {
    graph.replace_uses(out, in);
  } else {
    const auto dims = graph.type(out).static_dims();
    if (!dims || graph.type(out).dtype != whole.dtype() || element_count(*dims) != whole.count()) {
      return false;
    }
    graph.set_constant(out, whole.reshaped(*dims));
  }
  graph.remove_node(id);
  return true;
}

bool fold_graph(Graph& graph, const Evaluator& evaluate, FoldBudget& budget) {
  bool changed = false;
  for (const NodeId id : graph.topological_order()) {
    if (foldable(graph, graph.node(id))) {
      throw_if_interrupted();
      changed = share(graph, id) || fold(graph, id, evaluate, budget) || changed;
    } else {
      changed = edit_subgraphs(graph, id,
                               [&](Graph& body) { return fold_graph(body, evaluate, budget); }) ||
                changed;
    }
  }
  return changed;
}

std::size_t constant_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const ValueId v : graph.constants()) bytes += graph.constant(v)->bytes();
  for (const NodeId id : graph.nodes()) {
    for (const Graph* body : Graph::subgraphs(graph.node(id))) bytes += constant_bytes(*body);
  }
  return bytes;
}

}  // namespace

FoldBudget::FoldBudget(const Graph& graph) : left_(constant_bytes(graph) + kFreeGrowth) {}

bool fold_constants(Graph& graph, const Evaluator& evaluate, FoldBudget& budget) {
  return fold_graph(graph, evaluate, budget);
}

bool fold_constants(Graph& graph, const Evaluator& evaluate) {
  FoldBudget budget(graph);
  return fold_graph(graph, evaluate, budget);
}

}  // namespace xrt
