// SPDX-License-Identifier: Apache-2.0
// Nodes that compute large values of constants alone, which the passes did not fold for their size.
//
// Libraries fold them when they compile, and some when they are merely asked: a model of a few
// bytes would take gigabytes there, where no bound of ours holds. So other engines than the
// fallback neither see such nodes nor get them; what they make is an input to them.
#pragma once

#include <vector>

#include "xrt/graph.h"

namespace xrt {

// In topological order, with nodes whose sub-graphs have some.
std::vector<NodeId> heavy_constants(const Graph& graph);

// The graph without these nodes: what others read of them are further inputs. Ids stay.
Graph without_nodes(const Graph& graph, const std::vector<NodeId>& nodes);

}  // namespace xrt
