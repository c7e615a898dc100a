// SPDX-License-Identifier: Apache-2.0
// The graph of clusters while they are being merged: an edge where one cluster reads from another.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ir/updates.h"
#include "ops/sizes/deciding_operands.h"
#include "xrt/graph.h"

namespace xrt {

class ClusterGraph {
 public:
  // `order` is a topological order of the live nodes; `waits` count as edges; no cluster gets both
  // nodes of one of the `borders`.
  ClusterGraph(const Graph& graph, const std::vector<NodeId>& order,
               const std::vector<UpdateWait>& waits = {},
               const std::vector<ComputedOperand>& borders = {});

  // Clusters must be added in an order in which they can be launched, and must not form a cycle.
  void add(std::size_t engine, std::vector<NodeId> nodes);

  // Merges each cluster with the next ones of its engine where that closes no cycle.
  void merge_neighbours();

  // The clusters, each with its nodes in topological order, so that each comes after all that it
  // reads from. Leaves this object empty.
  std::vector<std::vector<NodeId>> take_in_launch_order();

 private:
  struct Item {
    std::size_t engine = 0;
    std::vector<NodeId> nodes;
    std::set<std::int32_t> readers;  // clusters that read from this one
    std::set<std::int32_t> sources;  // clusters that this one reads from
    std::set<std::int32_t> apart;    // clusters beyond a border
    bool alive = true;
  };

  void connect();
  // Is there a path from `from` to `to` through at least one cluster outside the two?
  // Answers yes, to be safe, once more than `budget` clusters were looked at.
  bool path_around(std::int32_t from, std::int32_t to, int budget);
  void merge(std::int32_t into, std::int32_t from);

  const Graph& graph_;
  const std::vector<UpdateWait> waits_;
  const std::vector<ComputedOperand> borders_;
  std::vector<std::int32_t> position_;  // NodeId::index → place in the topological order
  std::vector<Item> items_;
  std::vector<std::uint32_t> seen_;  // cluster → the last search that met it
  std::uint32_t search_ = 0;
};

}  // namespace xrt
