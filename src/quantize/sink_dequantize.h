// SPDX-License-Identifier: Apache-2.0
// Q/DQ graphs: values move in eight bits.
#pragma once

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// MaxPool, Concat, Transpose, … of dequantised values become the same op on the quantised ones,
// with DequantizeLinear behind it; a QuantizeLinear that undoes a DequantizeLinear of the same
// scale and zero point drops out. The outputs do not change by a bit. True if the graph changed.
XRT_API bool sink_dequantize(Graph& graph);

}  // namespace xrt
