// SPDX-License-Identifier: Apache-2.0
// Where scales and other factors must stay.
//
// In a graph with DequantizeLinear the CPU plugin moves scales and zero points, and other factors
// and summands that are constants, behind the ops that follow, so that those compute with bytes.
// For some ops what comes of it is another result: a pad is not divided by the scale, a mean is
// rounded to a byte, the epsilon of a normalisation is multiplied by the scale. In any graph a
// factor before a convolution becomes a part of its weights, also where it belongs to places.
#pragma once

#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt::openvino {

// An op of lowerings.h's domain: its input as it is, and no scale is moved across it.
inline constexpr const char* kKeepScale = "KeepScale";

// The graph with such a node before each operand that must come with its scale; nothing where there
// is none.
std::optional<Graph> with_kept_scales(const Graph& graph);

}  // namespace xrt::openvino
