// SPDX-License-Identifier: Apache-2.0
// Which If, Loop and Scan nodes the runtime drives itself, so that their bodies can run on several
// engines.
//
// A node goes whole to the first engine of the program's list where that engine takes it whole.
// Where one does not, and an engine before the first that does would take some of the nodes in the
// bodies, the runtime drives the node and each body is a program of its own (exec/body.h). A loop
// whose body would run on one engine anyway stays there: nothing would be won.
//
// In explanations such a node runs on "runtime", and the nodes of its bodies follow it, named
// "loop/body/node". By these names `node_engines` places them, too; {loop, "runtime"} asks for the
// runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt {

// If, Loop or Scan of the standard.
bool is_control_flow(const Node& node);

// Whether the runtime can drive the node: a control-flow node whose bodies fit it.
Support can_drive(const Graph& graph, NodeId id);

// The node's bodies, detached (ir/extract.h), by name of the attribute; their inputs have the
// types that they have in the first iteration as far as that is known. Unknown where the node's
// inputs are.
std::vector<std::pair<std::string, Graph>> detached_bodies(const Graph& graph, NodeId id);

// The overrides for nodes inside the given body, by the names that they have there.
std::map<std::string, std::string> overrides_within(
    const std::map<std::string, std::string>& overrides, const std::string& node,
    const std::string& attribute);

// Of a Scan: how many of its inputs are scanned.
std::size_t scanned_inputs(const Node& node);

// The i-th entry; 0 beyond the end.
std::int64_t entry_or_zero(const std::vector<std::int64_t>& list, std::size_t i);

}  // namespace xrt
