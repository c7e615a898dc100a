// SPDX-License-Identifier: Apache-2.0
#include "registry/op_lowering.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/host.h"
#include "ir/rewrite.h"
#include "isolation/names.h"
#include "ops/op_registry.h"
#include "ops/schema.h"
#include "ops/shape_inference.h"

namespace xrt {
namespace {

// Statements may use ops that have statements; deeper than this they go round in circles.
constexpr int kMaxDepth = 8;

Support takes_all(const Engine& engine, const Graph& body, const std::string& device, Phase phase,
                  int depth);

// The answer for a node, and the statements by which it is taken if not by the engine itself.
Support decide(const Engine& engine, const Graph& graph, NodeId id, const std::string& device,
               Phase phase, const Support& own, int depth, std::optional<Graph>& body) {
  const Node& node = graph.node(id);
  if (registered_op(graph, node) == nullptr || depth >= kMaxDepth) return own;
  body = lowered_body(graph, id, std::string(base_engine(engine.name())));
  const bool is_for_engine = body.has_value();
  if (!is_for_engine) {
    if (own || !has_function_body(graph, id)) return own;
    body = function_body(graph, id);
  }
  Support all = takes_all(engine, *body, device, phase, depth + 1);
  if (all) return all;
  body.reset();
  const char* what = is_for_engine ? "in its lowering, " : "in its body, ";
  Support no =
      Support::no(is_for_engine ? what + all.reason() : own.reason() + "; " + what + all.reason());
  return is_for_engine && own ? own : no;
}

Support takes_all(const Engine& engine, const Graph& body, const std::string& device, Phase phase,
                  int depth) {
  const std::vector<Support> answers = engine.supports_all({view_of(body), {}, device, phase});
  for (const NodeId id : body.nodes()) {
    const auto index = static_cast<std::size_t>(id.index);
    if (index >= answers.size()) return Support::no("the engine did not answer for every node");
    std::optional<Graph> inner;
    const Support answer = decide(engine, body, id, device, phase, answers[index], depth, inner);
    if (!answer) {
      return Support::no(body.node(id).qualified_op() + ": " + answer.reason());
    }
    if (engine.info().shapes == Shapes::kAny) continue;
    for (const ValueId v : body.node(id).outputs) {
      if (!v.valid() || !body.type(v).is_tensor() || body.type(v).is_static()) continue;
      return Support::no(body.node(id).qualified_op() + ": it needs static shapes, '" +
                         body.value(v).name + "' is " + to_string(body.type(v)));
    }
  }
  return Support::yes();
}

bool lower_some(const Engine& engine, Graph& graph, const std::string& device, Phase phase) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    if (registered_op(graph, graph.node(id)) == nullptr) continue;
    std::optional<Graph> body;
    const Support own = engine.supports({view_of(graph), id, device, phase});
    decide(engine, graph, id, device, phase, own, 0, body);
    if (!body) continue;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    std::erase_if(inputs, [](ValueId v) { return !v.valid(); });
    replace_node(graph, id, *body, inputs);
    changed = true;
  }
  return changed;
}

}  // namespace

bool has_registered_ops(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (registered_op(graph, node) != nullptr) return true;
    for (const Graph* body : Graph::subgraphs(node)) {
      if (has_registered_ops(*body)) return true;
    }
  }
  return false;
}

Support lowered_support(const Engine& engine, const Graph& graph, NodeId node,
                        const std::string& device, Phase phase, const Support& own) {
  std::optional<Graph> body;
  return decide(engine, graph, node, device, phase, own, 0, body);
}

Graph lower_ops(const Engine& engine, const Graph& function, const std::string& device,
                Phase phase) {
  Graph lowered(function);
  for (int depth = 0; depth < kMaxDepth && lower_some(engine, lowered, device, phase); ++depth) {
    infer_shapes(lowered);
  }
  return lowered;
}

}  // namespace xrt
