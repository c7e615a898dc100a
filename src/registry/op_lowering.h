// SPDX-License-Identifier: Apache-2.0
// How an engine that has no lowering of a user's op (xrt/op.h) takes it all the same: by the
// statements that were registered for that engine, else by the op's body.
//
// Rule: statements for the engine go before what it can do by itself, that before the body. A node
// is taken only where the engine takes every node of the statements; placement sees one node, the
// statements stand in for it in the function that the engine compiles.
#pragma once

#include <optional>
#include <string>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt {

// Whether some node, of a body too, is a user's op.
bool has_registered_ops(const Graph& graph);

// What the engine answers for a node of a user's op, `own` being what it says by itself.
Support lowered_support(const Engine& engine, const Graph& graph, NodeId node,
                        const std::string& device, Phase phase, const Support& own);

// A copy of a function's graph in which the nodes that the engine takes by statements are replaced
// by them.
Graph lower_ops(const Engine& engine, const Graph& function, const std::string& device,
                Phase phase);

}  // namespace xrt
