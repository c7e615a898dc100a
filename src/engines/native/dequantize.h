// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "xrt/graph.h"

namespace xrt::native {

// Quantised weights and biases become the float32 numbers that they stand for, once and not in
// every run: kernels pack them as they pack others.
void dequantize_constants(Graph& graph);

}  // namespace xrt::native
