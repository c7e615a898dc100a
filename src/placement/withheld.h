// SPDX-License-Identifier: Apache-2.0
// Nodes that other engines than the fallback neither see nor get: what is wrong with them is said
// where they run, and libraries read beyond memory also when they are merely asked about them; or
// they make large values of constants (placement/heavy_constants.h).
#pragma once

#include <string>
#include <vector>

#include "xrt/graph.h"
#include "xrt/registry.h"

namespace xrt {

struct Withheld {
  NodeId node;
  std::string reason;
};

// Of the graph that the engine is to be asked about.
std::vector<Withheld> withheld_nodes(const Engine& engine, const Graph& graph);

}  // namespace xrt
