// SPDX-License-Identifier: Apache-2.0
#include "engines/native/prepare.h"

namespace xrt::native {

namespace {

Support supports_bodies(const Node& node, const KernelRegistry& registry) {
  for (const Graph* body : Graph::subgraphs(node)) {
    for (const NodeId id : body->nodes()) {
      const Support support = supports_node(*body, id, registry);
      if (!support) {
        return Support::no("in the body, node '" + body->node(id).name + "': " + support.reason());
      }
    }
  }
  return Support::yes();
}

}  // namespace

void prepare_graph(Graph& graph, const KernelRegistry& registry, const CompileOptions& options) {
  (void)graph;
  (void)registry;
  (void)options;
}

Support supports_node(const Graph& graph, NodeId id, const KernelRegistry& registry) {
  std::string reason;
  if (registry.find(NodeView(graph, id), &reason) == nullptr) return Support::no(reason);
  return supports_bodies(graph.node(id), registry);
}

}  // namespace xrt::native
