// SPDX-License-Identifier: Apache-2.0
#include "partition/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace xrt {
namespace {

constexpr std::size_t kMostKinds = 20;  // ops that one message shows

// Nodes of one op.
struct RefusedKind {
  const RefusedNode* first = nullptr;
  std::size_t count = 0;
};

std::string reasons_text(const RefusedNode& node, const char* indent) {
  std::string text;
  for (const auto& [engine, reason] : node.reasons) {
    text += fmt::format("\n{}{}: {}", indent, engine, reason);
  }
  return text;
}

}  // namespace

RefusedNode refused_node(const Graph& graph, NodeId id, const std::vector<EngineAnswers>& answers,
                         const std::string& path) {
  const Node& node = graph.node(id);
  RefusedNode refused{path + node.name, node.qualified_op(), {}};
  for (const EngineAnswers& a : answers) {
    refused.reasons.emplace_back(a.engine, a.nodes[static_cast<std::size_t>(id.index)].reason());
  }
  return refused;
}

std::string refusals_text(const std::vector<RefusedNode>& nodes) {
  if (nodes.size() == 1) {
    return fmt::format("no engine takes node '{}' ({}){}", nodes[0].name, nodes[0].op,
                       reasons_text(nodes[0], "  "));
  }
  std::vector<RefusedKind> kinds;
  for (const RefusedNode& node : nodes) {
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const RefusedKind& kind) {
      return kind.first->op == node.op;
    });
    if (same == kinds.end()) {
      kinds.push_back({&node, 1});
    } else {
      ++same->count;
    }
  }
  std::string text = fmt::format("no engine takes {} nodes", nodes.size());
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i) {
    const RefusedKind& kind = kinds[i];
    text += fmt::format("\n  node '{}' ({})", kind.first->name, kind.first->op);
    if (kind.count > 1) text += fmt::format(", the first of {} nodes of this op", kind.count);
    text += reasons_text(*kind.first, "    ");
  }
  if (kinds.size() > kMostKinds) {
    text += fmt::format("\n  and nodes of {} more ops", kinds.size() - kMostKinds);
  }
  return text;
}

}  // namespace xrt
