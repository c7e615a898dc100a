// SPDX-License-Identifier: Apache-2.0
// What OpenVINO would convert and compile, and yet compute otherwise than the ONNX standard says.
#pragma once

#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt::openvino {

// The reason why OpenVINO must not run this node, or nothing. Looks at the node alone, not at the
// nodes of its sub-graphs.
std::optional<std::string> refusal(const Graph& graph, const Node& node);

}  // namespace xrt::openvino
