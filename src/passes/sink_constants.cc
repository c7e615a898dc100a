// SPDX-License-Identifier: Apache-2.0
// A constant that a sub-graph captures becomes a constant of the sub-graph: an engine that compiles
// the body sees weights instead of inputs, and what depends on them alone can be folded. The memory
// is shared, so nothing grows.
#include <utility>
#include <vector>

#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {

bool sink_constants(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    const Graph& around = graph;
    changed = edit_subgraphs(graph, id,
                             [&around](Graph& body) {
                               std::vector<std::pair<ValueId, Tensor>> found;
                               for (const Capture& c : body.captures()) {
                                 const Tensor* constant = around.constant(c.outer);
                                 if (constant != nullptr) found.emplace_back(c.inner, *constant);
                               }
                               for (auto& [inner, tensor] : found) {
                                 body.set_constant(inner, std::move(tensor));
                               }
                               return sink_constants(body) || !found.empty();
                             }) ||
              changed;
  }
  return changed;
}

}  // namespace xrt
