// SPDX-License-Identifier: Apache-2.0
// Cuts a graph into clusters, each run by one engine.
//
// Rule: every node goes to the first engine of the priority list that supports it; nodes of one
// engine are then gathered into as few clusters as possible such that the graph of clusters has no
// cycle, i.e. every cluster is convex: no path leaves it and comes back.
// The case this prevents: relu(engine a) → nonzero(b) → add(a), where add also reads relu. One
// cluster of both a-nodes could neither start (it needs nonzero) nor be waited for (nonzero needs
// it).
//
// How: a node's level is the number of engine changes on the longest way to it. Edges never go to
// a lower level, and stay on a level only within one engine, so (engine, level) groups can never
// form a cycle. Neighbouring groups of one engine are then merged where no path leads around.
// Planning is near-linear in nodes plus edges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/updates.h"
#include "ops/sizes/deciding_operands.h"
#include "xrt/engine.h"
#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// What one engine said about every node of the graph (indexed by NodeId::index).
struct EngineAnswers {
  std::string engine;
  std::vector<Support> nodes;
  // Two nodes of `PartitionOptions::borders` are in clusters of their own where it runs both.
  bool keeps_borders = false;
};

struct PartitionOptions {
  // Clusters of fewer nodes go to the next engine that takes each node; the last engine of the
  // list has no minimum. -1: no limit.
  std::int64_t minimum_nodes = 1;
  std::int64_t maximum_nodes = -1;                  // larger clusters are cut; -1: no limit
  std::map<std::string, std::string> node_engines;  // node name → engine
  // Every node of this engine is a cluster of its own, whatever the limits say.
  std::string single_node_engine;
  // Pairs of nodes between which values pass that somebody has to look at, maker and reader.
  std::vector<ComputedOperand> borders;
  // Pairs of input and output: who writes the output shall run after all that read the input, so
  // that the new value can be written over the old one.
  std::vector<Update> updates;
};

struct Cluster {
  std::size_t engine = 0;     // index into the answers
  std::vector<NodeId> nodes;  // in topological order
};

// A node that an engine takes and does not get: it was in a cluster below the minimum.
struct Demotion {
  NodeId node;
  std::size_t engine = 0;  // index into the answers
  std::size_t cluster_nodes = 0;
};

struct Partition {
  std::vector<Cluster> clusters;         // in an order in which they can be launched
  std::vector<std::int32_t> cluster_of;  // NodeId::index → index into clusters, -1 for dead nodes
  std::vector<Demotion> demotions;
};

// Throws kUnsupported naming all nodes that no engine takes, with every engine's reasons;
// kInvalidArgument for a limit that is neither -1 nor at least 1, and for an override that names
// an unknown node or engine or an engine that refuses the node.
XRT_API Partition partition(const Graph& graph, const std::vector<EngineAnswers>& answers,
                            const PartitionOptions& options);

}  // namespace xrt
