// SPDX-License-Identifier: Apache-2.0
// Our own lowerings of ONNX ops to OpenVINO's, for nodes that its ONNX frontend lacks or reads
// otherwise than the standard says. The decoder shows such a node to the frontend in a domain of
// ours, for which these conversion extensions are registered; all other nodes go to the frontend's
// own translators.
#pragma once

#include <memory>
#include <openvino/core/extension.hpp>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::openvino {

inline constexpr const char* kLoweringDomain = "openxrt";

// Whether this node goes to our lowering.
bool has_lowering(const Graph& graph, const Node& node);
const std::vector<std::shared_ptr<ov::Extension>>& lowering_extensions();
// Names of the ops that have a lowering of ours, sorted.
std::vector<std::string> lowered_ops();

}  // namespace xrt::openvino
