// SPDX-License-Identifier: Apache-2.0
// What OpenVINO computes of Attention otherwise than the standard. How its kernel may be joined
// with what is around it: barriers.h.
#pragma once

#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt::openvino {

// Why OpenVINO must not run a node of the op Attention, or nothing.
std::optional<std::string> attention_refusal(const Graph& graph, const Node& node);
// Likewise by exact sizes, which a node's signature (support.cc) has not.
std::optional<std::string> causal_mask_refusal(const Graph& graph, const Node& node);

}  // namespace xrt::openvino
