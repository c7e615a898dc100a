// SPDX-License-Identifier: Apache-2.0
// A value that a Loop carries keeps the shape that it starts with, if the body makes that shape of
// that shape. The standard's own rule says nothing of it: shapes may change from one iteration to
// the next.
// The case that must not be claimed: a value that grows, or that takes the shape of one that does.
// So all candidates are assumed at once, the body is inferred, and those that came out otherwise
// are dropped until the rest agrees: then it holds for every iteration, by induction.
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/rewrite.h"
#include "ops/shape_inference.h"
#include "passes/passes.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Which carried values are candidates, by position.
using Candidates = std::vector<bool>;

std::size_t count(const Candidates& candidates) {
  std::size_t n = 0;
  for (const bool c : candidates) n += c ? 1 : 0;
  return n;
}

// Those with a static start, of which that is not known already.
Candidates candidates_of(const Graph& graph, const Node& node, const Graph& body) {
  Candidates candidates(body.inputs().size() - 2, false);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const ValueId start = node.input(2 + i);
    const ValueId result = node.output(i);
    if (!start.valid() || !graph.type(start).is_tensor() || !graph.type(start).is_static())
      continue;
    const Type& inner = body.type(body.inputs()[2 + i]);
    const bool is_known = inner.is_static() && (!result.valid() || graph.type(result).is_static());
    candidates[i] = inner.is_tensor() && !is_known;
  }
  return candidates;
}

// The loop by itself: what it reads are inputs or constants. A trial takes the time of its body,
// not that of the graph around it.
Graph alone(const Graph& graph, NodeId id) {
  Graph trial(graph.name());
  trial.opsets() = graph.opsets();
  std::map<ValueId, ValueId> now;
  for (const ValueId v : graph.dependencies(id)) {
    const Tensor* constant = graph.constant(v);
    now[v] = constant != nullptr ? trial.add_constant(graph.value(v).name, *constant)
                                 : trial.add_input(graph.value(v).name, graph.type(v));
  }
  const auto moved = [&](ValueId v) { return v.valid() ? now.at(v) : v; };
  const Node& node = graph.node(id);
  auto body = std::make_shared<Graph>(*node.attr_graph("body"));
  body->remap_captures(moved);
  std::vector<ValueId> inputs;
  for (const ValueId v : node.inputs) inputs.push_back(moved(v));
  std::vector<std::string> outputs;
  for (const ValueId v : node.outputs) {
    outputs.push_back(v.valid() ? graph.value(v).name : std::string());
  }
  const NodeId loop = trial.add_node(node.domain, node.op, std::move(inputs), outputs,
                                     {{"body", std::move(body)}}, node.name, /*omit_empty=*/true);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    trial.set_type(trial.node(loop).outputs[i], graph.type(node.outputs[i]));
    trial.add_output(trial.node(loop).outputs[i]);
  }
  return trial;
}

// Gives the body's candidates the types of their starts.
void assume(Graph& graph, NodeId id, const Candidates& candidates) {
  std::vector<Type> starts;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const ValueId start = graph.node(id).input(2 + i);
    starts.push_back(start.valid() ? graph.type(start) : Type{});
  }
  graph.edit_subgraph(id, "body", [&](Graph& body) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i]) body.set_type(body.inputs()[2 + i], starts[i]);
    }
  });
}

// The candidates that come out of the body as they went in; nothing where the body cannot be
// inferred with these shapes.
std::optional<Candidates> confirmed(const Graph& graph, NodeId id, const Candidates& candidates) {
  Graph trial = alone(graph, id);
  const NodeId loop = trial.nodes().at(0);
  assume(trial, loop, candidates);
  try {
    infer_shapes(trial);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidModel) throw;
    return std::nullopt;
  }
  const auto body = trial.node(loop).attr_graph("body");
  Candidates kept = candidates;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    const Type& result = body->type(body->outputs()[1 + i]);
    kept[i] = result.is_tensor() && result.shape == graph.type(graph.node(id).inputs[2 + i]).shape;
  }
  return kept;
}

bool fix_loop(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.domain.empty() || node.op != "Loop") return false;
  const auto body = node.attr_graph("body");
  if (body == nullptr || body->inputs().size() < 2 ||
      body->outputs().size() + 1 < body->inputs().size()) {
    return false;
  }
  Candidates candidates = candidates_of(graph, node, *body);
  while (count(candidates) > 0) {
    const std::optional<Candidates> kept = confirmed(graph, id, candidates);
    if (!kept) return false;
    if (*kept == candidates) break;
    candidates = *kept;
  }
  if (count(candidates) == 0) return false;
  assume(graph, id, candidates);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const ValueId result = graph.node(id).output(i);
    if (candidates[i] && result.valid()) {
      graph.set_type(result, graph.type(graph.node(id).inputs[2 + i]));
    }
  }
  return true;
}

}  // namespace

bool fix_loop_shapes(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    changed = fix_loop(graph, id) || edit_subgraphs(graph, id, fix_loop_shapes) || changed;
  }
  return changed;
}

}  // namespace xrt
