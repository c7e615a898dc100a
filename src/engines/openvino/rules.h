// SPDX-License-Identifier: Apache-2.0
// What OpenVINO would convert and compile, and yet compute otherwise than the ONNX standard says.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::openvino {

// Reasons why OpenVINO must not run a node, or nothing. They look at the node alone, not at the
// nodes of its sub-graphs.
//
// Of its types: holds however the node is lowered.
std::optional<std::string> type_refusal(const Graph& graph, const Node& node);
// Of the op itself: a function body of the op may still do.
std::optional<std::string> op_refusal(const Graph& graph, const Node& node);

// Whether the operand is there and no constant.
bool is_computed(const Graph& graph, ValueId id);

// Whether both are known, or one symbol.
bool is_same_size(const Dim& a, const Dim& b);

// By the node's index: of how many elementwise nodes, each read by or reading another one, the
// group has that it is part of; 0 for other nodes. Passes of the plugin take time that grows faster
// than the square of it.
std::vector<std::size_t> elementwise_groups(const Graph& graph);
// Above the first number the plugin is not to make one kernel of a group, which takes it seconds;
// above the second one it does not get the nodes.
constexpr std::size_t kMostInOneKernel = 512;
constexpr std::size_t kMostInOneGroup = 2048;

}  // namespace xrt::openvino
