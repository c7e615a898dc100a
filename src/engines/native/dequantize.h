// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "xrt/graph.h"

namespace xrt::native {

// The float32 numbers that a DequantizeLinear of a constant stands for. An undefined tensor where
// the node is none that this file knows: blocks, other types, scales that do not fit.
Tensor dequantized(const Graph& graph, const Node& node);

// Quantised weights and biases become the float32 numbers that they stand for, once and not in
// every run: kernels pack them as they pack others.
void dequantize_constants(Graph& graph);

}  // namespace xrt::native
