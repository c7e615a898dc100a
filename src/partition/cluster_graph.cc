// SPDX-License-Identifier: Apache-2.0
#include "partition/cluster_graph.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "xrt/error.h"

namespace xrt {
namespace {

// Bounds on the search for merges, so that planning stays near-linear on graphs of thousands of
// clusters: how many later clusters of the same engine are tried, and how far a path is followed.
constexpr int kMergeCandidates = 6;
constexpr int kPathBudget = 1024;

}  // namespace

ClusterGraph::ClusterGraph(const Graph& graph, const std::vector<NodeId>& order,
                           const std::vector<UpdateWait>& waits,
                           const std::vector<ComputedOperand>& borders)
    : graph_(graph), waits_(waits), borders_(borders), position_(graph.node_capacity(), -1) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    position_[static_cast<std::size_t>(order[i].index)] = static_cast<std::int32_t>(i);
  }
}

void ClusterGraph::add(std::size_t engine, std::vector<NodeId> nodes) {
  Item item;
  item.engine = engine;
  item.nodes = std::move(nodes);
  items_.push_back(std::move(item));
}

void ClusterGraph::connect() {
  std::vector<std::int32_t> owner(graph_.node_capacity(), -1);
  for (std::size_t c = 0; c < items_.size(); ++c) {
    items_[c].readers.clear();
    items_[c].sources.clear();
    items_[c].apart.clear();
    for (const NodeId id : items_[c].nodes) {
      owner[static_cast<std::size_t>(id.index)] = static_cast<std::int32_t>(c);
    }
  }
  const auto connect_nodes = [&](NodeId from, NodeId to) {
    const std::int32_t source = owner[static_cast<std::size_t>(from.index)];
    const std::int32_t target = owner[static_cast<std::size_t>(to.index)];
    if (source == target) return;
    items_[static_cast<std::size_t>(target)].sources.insert(source);
    items_[static_cast<std::size_t>(source)].readers.insert(target);
  };
  for (const Item& item : items_) {
    for (const NodeId id : item.nodes) {
      for (const ValueId v : graph_.dependencies(id)) {
        const Value& value = graph_.value(v);
        if (value.origin == Origin::kNode) connect_nodes(value.producer, id);
      }
    }
  }
  for (const UpdateWait& wait : waits_) connect_nodes(wait.reader, wait.writer);
  for (const ComputedOperand& border : borders_) {
    const std::int32_t maker = owner[static_cast<std::size_t>(border.maker.index)];
    const std::int32_t reader = owner[static_cast<std::size_t>(border.reader.index)];
    items_[static_cast<std::size_t>(maker)].apart.insert(reader);
    items_[static_cast<std::size_t>(reader)].apart.insert(maker);
  }
}

bool ClusterGraph::path_around(std::int32_t from, std::int32_t to, int budget) {
  seen_.resize(items_.size(), 0);
  ++search_;
  std::vector<std::int32_t> stack;
  for (const std::int32_t next : items_[static_cast<std::size_t>(from)].readers) {
    if (next == to) continue;
    if (--budget < 0) return true;
    stack.push_back(next);
  }
  while (!stack.empty()) {
    const std::int32_t c = stack.back();
    stack.pop_back();
    std::uint32_t& seen = seen_[static_cast<std::size_t>(c)];
    if (seen == search_) continue;
    seen = search_;
    for (const std::int32_t next : items_[static_cast<std::size_t>(c)].readers) {
      if (next == to || --budget < 0) return true;
      stack.push_back(next);
    }
  }
  return false;
}

void ClusterGraph::merge(std::int32_t into, std::int32_t from) {
  Item& a = items_[static_cast<std::size_t>(into)];
  Item& b = items_[static_cast<std::size_t>(from)];
  a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
  for (const std::int32_t r : b.readers) {
    auto& sources = items_[static_cast<std::size_t>(r)].sources;
    sources.erase(from);
    if (r == into) continue;
    sources.insert(into);
    a.readers.insert(r);
  }
  for (const std::int32_t s : b.sources) {
    auto& readers = items_[static_cast<std::size_t>(s)].readers;
    readers.erase(from);
    if (s == into) continue;
    readers.insert(into);
    a.sources.insert(s);
  }
  for (const std::int32_t other : b.apart) {
    auto& apart = items_[static_cast<std::size_t>(other)].apart;
    apart.erase(from);
    apart.insert(into);
    a.apart.insert(other);
  }
  a.readers.erase(from);
  a.sources.erase(from);
  b = Item{};
  b.alive = false;
}

void ClusterGraph::merge_neighbours() {
  connect();
  // The next item of the same engine that is alive, as far as is known.
  std::vector<std::size_t> following(items_.size(), items_.size());
  std::map<std::size_t, std::size_t> nearest;  // engine → item
  for (std::size_t c = items_.size(); c-- > 0;) {
    const auto [it, fresh] = nearest.emplace(items_[c].engine, c);
    if (!fresh) following[c] = std::exchange(it->second, c);
  }
  const auto next_alive = [&](std::size_t c) {
    std::size_t& next = following[c];
    while (next < items_.size() && !items_[next].alive) next = following[next];
    return next;
  };
  for (std::size_t c = 0; c < items_.size(); ++c) {
    if (!items_[c].alive) continue;
    int candidates = 0;
    for (std::size_t next = next_alive(c); next < items_.size() && candidates < kMergeCandidates;
         next = next_alive(next)) {
      ++candidates;
      if (items_[c].apart.contains(static_cast<std::int32_t>(next))) continue;
      const auto a = static_cast<std::int32_t>(c);
      const auto b = static_cast<std::int32_t>(next);
      // After merges the later index may come first in the flow, so both directions count.
      if (path_around(a, b, kPathBudget) || path_around(b, a, kPathBudget)) continue;
      merge(a, b);
      --candidates;
    }
  }
}

std::vector<std::vector<NodeId>> ClusterGraph::take_in_launch_order() {
  const auto by_position = [&](NodeId a, NodeId b) {
    return position_[static_cast<std::size_t>(a.index)] <
           position_[static_cast<std::size_t>(b.index)];
  };
  // Ready clusters by their first node: deterministic and close to the order of the model.
  using Entry = std::pair<std::int32_t, std::int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<std::size_t> waiting(items_.size(), 0);
  std::size_t alive = 0;
  const auto push = [&](std::size_t c) {
    const NodeId first = items_[c].nodes.front();
    ready.emplace(position_[static_cast<std::size_t>(first.index)], static_cast<std::int32_t>(c));
  };
  for (std::size_t c = 0; c < items_.size(); ++c) {
    if (!items_[c].alive) continue;
    ++alive;
    std::sort(items_[c].nodes.begin(), items_[c].nodes.end(), by_position);
    waiting[c] = items_[c].sources.size();
    if (waiting[c] == 0) push(c);
  }
  std::vector<std::vector<NodeId>> clusters;
  while (!ready.empty()) {
    const auto c = static_cast<std::size_t>(ready.top().second);
    ready.pop();
    clusters.push_back(std::move(items_[c].nodes));
    for (const std::int32_t r : items_[c].readers) {
      if (--waiting[static_cast<std::size_t>(r)] == 0) push(static_cast<std::size_t>(r));
    }
  }
  if (clusters.size() != alive) {
    throw Error(ErrorCode::kInternal, "the partition of graph '" + graph_.name() + "' has a cycle");
  }
  items_.clear();
  return clusters;
}

}  // namespace xrt
