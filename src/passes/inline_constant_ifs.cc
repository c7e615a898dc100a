// SPDX-License-Identifier: Apache-2.0
// An If whose condition is a constant becomes the nodes of the branch that it takes.
#include <vector>

#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {
namespace {

bool inline_if(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.domain.empty() || node.op != "If") return false;
  const Tensor* condition = graph.constant(node.input(0));
  if (condition == nullptr || condition->dtype() != DType::kBool || condition->count() != 1) {
    return false;
  }
  const bool taken = condition->data<std::uint8_t>()[0] != 0;
  const auto branch = node.attr_graph(taken ? "then_branch" : "else_branch");
  if (branch == nullptr || branch->outputs().size() != node.outputs.size()) return false;
  for (const ValueId v : node.outputs) {
    if (!v.valid()) return false;  // outputs are matched by position
  }
  replace_node(graph, id, Graph(*branch), {});
  return true;
}

}  // namespace

bool inline_constant_ifs(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    changed = inline_if(graph, id) || edit_subgraphs(graph, id, inline_constant_ifs) || changed;
  }
  return changed;
}

}  // namespace xrt
