// SPDX-License-Identifier: Apache-2.0
// What OpenVINO computes of convolutions and pools otherwise than the standard, or in one call that
// nobody can end.
#pragma once

#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt::openvino {

// Why OpenVINO must not run a node of these ops, or nothing.
std::optional<std::string> long_pool(const Graph& graph, const Node& node);  // LpPool
std::optional<std::string> average_pool(const Graph& graph, const Node& node);
std::optional<std::string> max_pool(const Graph& graph, const Node& node);
std::optional<std::string> conv(const Graph& graph, const Node& node);
std::optional<std::string> conv_transpose(const Graph& graph, const Node& node);

// Likewise of convolutions by exact sizes, which a node's signature (support.cc) has not.
std::optional<std::string> window_refusal(const Graph& graph, const Node& node);

}  // namespace xrt::openvino
