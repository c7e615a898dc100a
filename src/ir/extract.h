// SPDX-License-Identifier: Apache-2.0
// Parts of a graph as graphs of their own.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Copies nodes into another graph, keeping a map from old values to new ones.
class XRT_API GraphCopier {
 public:
  GraphCopier(const Graph& from, Graph& to) : from_(from), to_(to), map_(from.value_capacity()) {}

  bool has(ValueId v) const { return map_[static_cast<std::size_t>(v.index)].valid(); }
  ValueId get(ValueId v) const { return v.valid() ? map_[static_cast<std::size_t>(v.index)] : v; }
  void set(ValueId old, ValueId now) { map_[static_cast<std::size_t>(old.index)] = now; }

  void constant(ValueId old);
  // Every dependency must be mapped already.
  void node(NodeId id);

 private:
  // Bodies are copied, and read the new graph's values where they read the old one's.
  Attributes copy_attributes(const Node& old) const;

  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> map_;
};

// A part of a graph as a graph of its own.
struct Extract {
  Graph graph;
  std::vector<ValueId> inputs;   // ids in the source graph, as graph.inputs()
  std::vector<ValueId> outputs;  // ids in the source graph, as graph.outputs()
};

// The listed nodes (in topological order) of `graph`; what they read from outside becomes inputs,
// what others or the graph's outputs read of them becomes outputs.
XRT_API Extract extract(const Graph& graph, const std::vector<NodeId>& nodes, std::string name);

// A body of an If, Loop or Scan as a graph of its own: what it captures becomes further inputs,
// after those that it declares, in the order of captures().
XRT_API Graph detach(const Graph& body, std::string name);

}  // namespace xrt
