// SPDX-License-Identifier: Apache-2.0
// The end of a training step: elementwise ops that make new values of variables.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// By NodeId::index: nodes of arithmetic ops (Add, Sub, Mul, Div, Max, Min, Sqrt, Neg) whose result
// is one of `written`, or is read by such nodes alone; and for which `accept`, where given, says
// yes.
XRT_API std::vector<bool> update_nodes(const Graph& graph, std::span<const ValueId> written,
                                       const std::function<bool(const Node&)>& accept = {});

// An input and the output that is its next value.
using Update = std::pair<ValueId, ValueId>;

// Nodes that write a variable and that nobody waits for, each with one that reads the old value.
struct UpdateWait {
  NodeId reader;
  NodeId writer;
};
XRT_API std::vector<UpdateWait> update_waits(const Graph& graph, std::span<const Update> updates);

// The nodes in topological order; those that write a variable and that nobody waits for come as
// soon as what they read is there and all others have read its old value. So a gradient's memory
// is free again early.
XRT_API std::vector<NodeId> update_order(const Graph& graph, std::span<const Update> updates);

}  // namespace xrt
