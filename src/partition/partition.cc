// SPDX-License-Identifier: Apache-2.0
#include "partition/partition.h"

#include <algorithm>
#include <utility>

#include "partition/cluster_graph.h"
#include "partition/refusals.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kNoEngine = static_cast<std::size_t>(-1);

std::size_t at(NodeId id) { return static_cast<std::size_t>(id.index); }

void check_limit(std::int64_t limit, const char* name) {
  if (limit == -1 || limit >= 1) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(name) + " is " + std::to_string(limit) +
                                               "; -1 (no limit) or a number from 1 on is wanted");
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const std::vector<EngineAnswers>& answers,
              const PartitionOptions& options)
      : graph_(graph),
        answers_(answers),
        options_(options),
        order_(update_order(graph, options.updates)),
        waits_(update_waits(graph, options.updates)),
        engine_(graph.node_capacity(), kNoEngine),
        pinned_(graph.node_capacity(), false) {
    for (const ComputedOperand& border : options.borders) {
      borders_.emplace(border.reader, border.maker);
    }
  }

  Partition run() {
    check_limit(options_.minimum_nodes, "cluster_minimum_nodes");
    check_limit(options_.maximum_nodes, "cluster_maximum_nodes");
    apply_overrides();
    std::vector<RefusedNode> refused;
    for (const NodeId id : order_) {
      if (!pinned_[at(id)]) engine_[at(id)] = first_engine(id, 0);
      if (engine_[at(id)] == kNoEngine) refused.push_back(refused_node(graph_, id, answers_));
    }
    if (!refused.empty()) throw Error(ErrorCode::kUnsupported, refusals_text(refused));
    keep_quantised_groups_whole();
    std::vector<std::vector<NodeId>> clusters = gather();
    // Demoting one engine's small clusters can complete those of an engine further down, never of
    // one further up: one pass over the list suffices.
    for (std::size_t e = 0; e + 1 < answers_.size() && options_.minimum_nodes > 1; ++e) {
      if (demote_small(clusters, e)) clusters = gather();
    }
    return finish(std::move(clusters));
  }

 private:
  bool takes(std::size_t engine, NodeId id) const {
    return static_cast<bool>(answers_[engine].nodes[at(id)]);
  }

  bool is_single(std::size_t engine) const {
    return !options_.single_node_engine.empty() &&
           answers_[engine].engine == options_.single_node_engine;
  }

  std::size_t first_engine(NodeId id, std::size_t from) const {
    for (std::size_t e = from; e < answers_.size(); ++e) {
      if (takes(e, id)) return e;
    }
    return kNoEngine;
  }

  void apply_overrides() {
    for (const auto& [name, engine] : options_.node_engines) {
      const auto id = graph_.find_node(name);
      if (!id) {
        throw Error(ErrorCode::kInvalidArgument,
                    "node_engines names the node '" + name +
                        "', which the graph does not have after its passes");
      }
      const auto found =
          std::find_if(answers_.begin(), answers_.end(),
                       [&wanted = engine](const EngineAnswers& a) { return a.engine == wanted; });
      if (found == answers_.end()) {
        throw Error(ErrorCode::kInvalidArgument, "node_engines puts node '" + name +
                                                     "' on engine '" + engine +
                                                     "', which is not among the program's engines");
      }
      const auto e = static_cast<std::size_t>(found - answers_.begin());
      if (!takes(e, *id)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "node_engines puts node '" + name + "' on engine '" + engine +
                        "', which refuses it: " + found->nodes[at(*id)].reason());
      }
      engine_[at(*id)] = e;
      pinned_[at(*id)] = true;
    }
  }

  bool is(NodeId id, std::string_view op) const {
    const Node& node = graph_.node(id);
    return node.op == op && node.domain.empty();
  }

  // An engine recognises int8 work by the DequantizeLinear before and the QuantizeLinear after an
  // op, so these follow the op to its engine.
  void keep_quantised_groups_whole() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      if (!is(*it, "DequantizeLinear") || pinned_[at(*it)]) continue;
      const auto& uses = graph_.uses(graph_.node(*it).outputs.at(0));
      if (uses.empty()) continue;
      const std::size_t wanted = engine_[at(uses.front().node)];
      if (takes(wanted, *it)) engine_[at(*it)] = wanted;
    }
    for (const NodeId id : order_) {
      if (!is(id, "QuantizeLinear") || pinned_[at(id)]) continue;
      const Value& source = graph_.value(graph_.node(id).inputs.at(0));
      if (source.origin != Origin::kNode) continue;
      const std::size_t wanted = engine_[at(source.producer)];
      if (takes(wanted, id)) engine_[at(id)] = wanted;
    }
  }

  // Levels, then groups by (level, engine), then merges.
  std::vector<std::vector<NodeId>> gather() const {
    std::vector<std::int32_t> level(graph_.node_capacity(), 0);
    std::int32_t levels = 0;
    std::multimap<NodeId, NodeId> waits;  // writer → reader
    for (const UpdateWait& wait : waits_) waits.emplace(wait.writer, wait.reader);
    for (const NodeId id : order_) {
      std::int32_t l = 0;
      const auto [begin, end] = waits.equal_range(id);
      for (auto it = begin; it != end; ++it) {
        const std::size_t p = at(it->second);
        l = std::max(l, level[p] + (engine_[p] == engine_[at(id)] ? 0 : 1));
      }
      for (const ValueId v : graph_.dependencies(id)) {
        const Value& value = graph_.value(v);
        if (value.origin != Origin::kNode) continue;
        const std::size_t p = at(value.producer);
        l = std::max(l, level[p] + (engine_[p] == engine_[at(id)] ? 0 : 1));
      }
      for (const NodeId maker : makers_across_borders(id)) {
        l = std::max(l, level[at(maker)] + 1);
      }
      level[at(id)] = l;
      levels = std::max(levels, l + 1);
    }
    sink_dequantisers(level);
    std::map<std::pair<std::int32_t, std::size_t>, std::vector<NodeId>> groups;
    for (const NodeId id : order_) groups[{level[at(id)], engine_[at(id)]}].push_back(id);
    ClusterGraph clusters(graph_, order_, waits_, kept_borders());
    for (auto& [key, nodes] : groups) clusters.add(key.second, std::move(nodes));
    clusters.merge_neighbours();
    return clusters.take_in_launch_order();
  }

  bool keeps_border(const ComputedOperand& border) const {
    const std::size_t engine = engine_[at(border.reader)];
    return engine_[at(border.maker)] == engine && answers_[engine].keeps_borders;
  }

  std::vector<NodeId> makers_across_borders(NodeId reader) const {
    std::vector<NodeId> makers;
    const auto [begin, end] = borders_.equal_range(reader);
    for (auto it = begin; it != end; ++it) {
      if (keeps_border({it->second, reader})) makers.push_back(it->second);
    }
    return makers;
  }

  std::vector<ComputedOperand> kept_borders() const {
    std::vector<ComputedOperand> kept;
    for (const ComputedOperand& border : options_.borders) {
      if (keeps_border(border)) kept.push_back(border);
    }
    return kept;
  }

  // A DequantizeLinear read by one node of its engine joins that node's level: it needs nothing
  // that the node does not wait for anyway.
  void sink_dequantisers(std::vector<std::int32_t>& level) const {
    for (const NodeId id : order_) {
      if (!is(id, "DequantizeLinear")) continue;
      const ValueId out = graph_.node(id).outputs.at(0);
      const auto& uses = graph_.uses(out);
      if (uses.size() != 1 || graph_.is_output(out)) continue;
      if (engine_[at(uses[0].node)] == engine_[at(id)]) level[at(id)] = level[at(uses[0].node)];
    }
  }

  bool demote_small(const std::vector<std::vector<NodeId>>& clusters, std::size_t engine) {
    bool changed = false;
    for (const auto& nodes : clusters) {
      if (engine_[at(nodes[0])] != engine || is_single(engine)) continue;
      if (static_cast<std::int64_t>(nodes.size()) >= options_.minimum_nodes) continue;
      for (const NodeId id : nodes) {
        const std::size_t next = pinned_[at(id)] ? kNoEngine : first_engine(id, engine + 1);
        if (next == kNoEngine) continue;  // nobody else can: better small than not at all
        demotions_.push_back({id, engine, nodes.size()});
        engine_[at(id)] = next;
        changed = true;
      }
    }
    return changed;
  }

  Partition finish(std::vector<std::vector<NodeId>> clusters) const {
    Partition result;
    result.demotions = demotions_;
    result.cluster_of.assign(graph_.node_capacity(), -1);
    for (auto& nodes : clusters) {
      // A convex set cut along its topological order leaves convex pieces.
      std::size_t piece = nodes.size();
      if (options_.maximum_nodes != -1) piece = static_cast<std::size_t>(options_.maximum_nodes);
      if (is_single(engine_[at(nodes[0])])) piece = 1;
      for (std::size_t begin = 0; begin < nodes.size(); begin += piece) {
        const std::size_t end = std::min(nodes.size(), begin + piece);
        Cluster cluster;
        cluster.engine = engine_[at(nodes[begin])];
        cluster.nodes.assign(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                             nodes.begin() + static_cast<std::ptrdiff_t>(end));
        for (const NodeId id : cluster.nodes) {
          result.cluster_of[at(id)] = static_cast<std::int32_t>(result.clusters.size());
        }
        result.clusters.push_back(std::move(cluster));
      }
    }
    return result;
  }

  const Graph& graph_;
  const std::vector<EngineAnswers>& answers_;
  const PartitionOptions& options_;
  std::vector<NodeId> order_;
  std::vector<UpdateWait> waits_;
  std::vector<std::size_t> engine_;
  std::vector<bool> pinned_;
  std::multimap<NodeId, NodeId> borders_;  // reader → maker
  std::vector<Demotion> demotions_;
};

}  // namespace

Partition partition(const Graph& graph, const std::vector<EngineAnswers>& answers,
                    const PartitionOptions& options) {
  return Partitioner(graph, answers, options).run();
}

}  // namespace xrt
