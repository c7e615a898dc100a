// SPDX-License-Identifier: Apache-2.0
// What a Loop carries and its body hands on unchanged (PaddlePaddle's exporter: all weights)
// becomes a value that the body captures. It is copied in no iteration then, and a constant is one
// in the body too. The loop's result for it is what it started with, however often the body runs.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/pattern.h"
#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {
namespace {

constexpr std::size_t kFirstCarried = 2;  // of the inputs of a Loop and of its body
constexpr std::size_t kFirstKept = 1;     // of the body's outputs: before it is the condition

// What Identity nodes hand on.
ValueId source(const Graph& graph, ValueId v) {
  while (const Node* identity = producer(graph, v, "Identity")) v = identity->input(0);
  return v;
}

// Which carried values are handed on unchanged, by position.
std::vector<bool> invariants(const Node& loop, const Graph& body) {
  std::vector<bool> found(body.inputs().size() - kFirstCarried);
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i] = loop.input(kFirstCarried + i).valid() &&
               source(body, body.outputs()[kFirstKept + i]) == body.inputs()[kFirstCarried + i];
  }
  return found;
}

// The body without the carried values that are invariant.
std::shared_ptr<Graph> without(const Graph& graph, const Node& loop, const Graph& body,
                               const std::vector<bool>& is_invariant) {
  auto result = std::make_shared<Graph>(body.name());
  result->opsets() = body.opsets();
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const Value& input = body.value(body.inputs()[i]);
    const bool is_carried = i >= kFirstCarried;
    if (is_carried && is_invariant[i - kFirstCarried]) {
      inputs.push_back(result->add_capture(loop.input(i), input.name, graph.type(loop.input(i))));
    } else {
      inputs.push_back(result->add_input(input.name, input.type));
    }
  }
  Graph from(body);
  from.remap_captures([&](ValueId outer) {
    return result->add_capture(outer, graph.value(outer).name, graph.type(outer));
  });
  const std::vector<ValueId> outputs = splice(*result, from, inputs, "");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool is_carried = i >= kFirstKept && i < kFirstKept + is_invariant.size();
    if (!is_carried || !is_invariant[i - kFirstKept]) result->add_output(outputs[i]);
  }
  return result;
}

bool capture(Graph& graph, NodeId id) {
  const Node loop = graph.node(id);
  if (!loop.domain.empty() || loop.op != "Loop") return false;
  const auto body = loop.attr_graph("body");
  if (body == nullptr || body->inputs().size() < kFirstCarried ||
      body->outputs().size() + kFirstCarried < body->inputs().size() + kFirstKept) {
    return false;
  }
  const std::vector<bool> is_invariant = invariants(loop, *body);
  std::vector<ValueId> inputs{loop.input(0), loop.input(1)};
  std::vector<std::string> names;
  std::vector<ValueId> kept;
  bool any = false;
  for (std::size_t i = 0; i < is_invariant.size(); ++i) {
    any = any || is_invariant[i];
    if (!is_invariant[i]) inputs.push_back(loop.input(kFirstCarried + i));
  }
  if (!any) return false;
  for (std::size_t i = 0; i < loop.outputs.size(); ++i) {
    const ValueId output = loop.outputs[i];
    if (i >= is_invariant.size() || !is_invariant[i]) {
      kept.push_back(output);
      names.push_back(output.valid() ? graph.value(output).name : std::string());
    } else if (output.valid()) {
      replace_value(graph, output, loop.input(kFirstCarried + i));
    }
  }
  if (!kept.empty()) {
    Attributes attributes = loop.attributes;
    attributes["body"] = without(graph, loop, *body, is_invariant);
    const NodeId made = graph.add_node("", "Loop", std::move(inputs), names, std::move(attributes),
                                       loop.name, /*omit_empty=*/true);
    const std::vector<ValueId> outputs = graph.node(made).outputs;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i].valid()) continue;
      graph.set_type(outputs[i], graph.type(kept[i]));
      replace_value(graph, kept[i], outputs[i]);
    }
  }
  graph.remove_node(id);
  return true;
}

}  // namespace

bool capture_loop_invariants(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    changed = edit_subgraphs(graph, id, capture_loop_invariants) || changed;
    changed = capture(graph, id) || changed;
  }
  return changed;
}

}  // namespace xrt
