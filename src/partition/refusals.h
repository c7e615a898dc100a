// SPDX-License-Identifier: Apache-2.0
// Nodes that no engine takes, in words: all of them, gathered by op.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "partition/partition.h"
#include "xrt/graph.h"

namespace xrt {

struct RefusedNode {
  std::string name;                                          // "loop/body/node" for one of a body
  std::string op;                                            // qualified
  std::vector<std::pair<std::string, std::string>> reasons;  // engine, why it refuses the node
};

// The node with every engine's reason; `path` stands before its name.
RefusedNode refused_node(const Graph& graph, NodeId id, const std::vector<EngineAnswers>& answers,
                         const std::string& path = {});

// "no engine takes node 'a' (Foo)" with a line for each reason, or "no engine takes 7 nodes" with
// each op's count, first node and its reasons. Very long lists are cut, and say so.
std::string refusals_text(const std::vector<RefusedNode>& nodes);

}  // namespace xrt
