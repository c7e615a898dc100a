// SPDX-License-Identifier: Apache-2.0
// What OpenVINO would convert and compile, and yet compute otherwise than the ONNX standard says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt::openvino {

// Reasons why OpenVINO must not run a node, or nothing. They look at the node alone, not at the
// nodes of its sub-graphs.
//
// Of its types: holds however the node is lowered.
std::optional<std::string> type_refusal(const Graph& graph, const Node& node);
// Of the op itself: a function body of the op may still do.
std::optional<std::string> op_refusal(const Graph& graph, const Node& node);

// Integer inputs of the node are computed exactly up to this absolute value: the CPU plugin turns
// 64-bit integers into int32, and for some ops int32 into float32.
std::int64_t integer_bound(const Graph& graph, const Node& node);

}  // namespace xrt::openvino
