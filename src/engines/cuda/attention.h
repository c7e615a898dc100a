// SPDX-License-Identifier: Apache-2.0
// Attention of half precision that a model writes in float32, as frameworks do: its products are
// brought back to half precision, with sums in float32.
#pragma once

#include "xrt/graph.h"

namespace xrt::cuda {

// half(softmax(…) · float(v)) becomes half(softmax(…)) · v: the weights, which are between 0 and 1,
// are rounded once, as in kernels that compute attention as a whole.
void narrow_attention(xrt::Graph& graph);

}  // namespace xrt::cuda
