// SPDX-License-Identifier: Apache-2.0
// What OpenVINO computes of quantised nodes otherwise than the standard. What may be moved or
// joined around them: barriers.h.
#pragma once

#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt::openvino {

// Why OpenVINO must not run a node of these ops, or nothing.
std::optional<std::string> quantize_linear(const Graph& graph, const Node& node);
std::optional<std::string> dequantize_linear(const Graph& graph, const Node& node);
// QLinearConv and QLinearMatMul.
std::optional<std::string> quantized_product(const Graph& graph, const Node& node);

// Likewise of nodes that read what DequantizeLinear made: of the node before and of exact sizes,
// which a node's signature (support.cc) has not.
std::optional<std::string> quantized_refusal(const Graph& graph, const Node& node);

}  // namespace xrt::openvino
