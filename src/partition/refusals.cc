// SPDX-License-Identifier: Apache-2.0
#include "partition/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>

#include "base/message.h"

namespace xrt {
namespace {

constexpr std::size_t kMostKinds = 4;  // ops that one message shows
// Names and ops may have any length, and engines repeat them in their reasons.
constexpr std::size_t kMostOfName = 80;
constexpr std::size_t kMostOfReason = 150, kMostOfEach = 100;  // of one node, of several

// Nodes of one op.
struct RefusedKind {
  const RefusedNode* first = nullptr;
  std::size_t count = 0;
};

std::string named(const RefusedNode& node) {
  return fmt::format("node '{}' ({})", shortened(node.name, kMostOfName),
                     shortened(node.op, kMostOfName));
}

std::string reasons_text(const RefusedNode& node, const char* indent, std::size_t most) {
  std::string text;
  for (const auto& [engine, reason] : node.reasons) {
    text += fmt::format("\n{}{}: {}", indent, engine, shortened(reason, most));
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
    return fmt::format("no engine takes {}{}", named(nodes[0]),
                       reasons_text(nodes[0], "  ", kMostOfReason));
  }
  std::vector<RefusedKind> kinds;
  std::map<std::string_view, std::size_t> known;  // by op, in kinds
  for (const RefusedNode& node : nodes) {
    const auto [same, fresh] = known.try_emplace(node.op, kinds.size());
    if (fresh) kinds.push_back({&node, 0});
    ++kinds[same->second].count;
  }
  std::string text = fmt::format("no engine takes {} nodes", nodes.size());
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i) {
    const RefusedKind& kind = kinds[i];
    text += "\n  " + named(*kind.first);
    if (kind.count > 1) text += fmt::format(", the first of {} nodes of this op", kind.count);
    text += reasons_text(*kind.first, "    ", kMostOfEach);
  }
  if (kinds.size() > kMostKinds) {
    text += fmt::format("\n  and nodes of {} more ops", kinds.size() - kMostKinds);
  }
  return text;
}

}  // namespace xrt
