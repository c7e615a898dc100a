// SPDX-License-Identifier: Apache-2.0
// Which values a gradient could reach.
#pragma once

#include <vector>

#include "xrt/graph.h"

namespace xrt::autodiff {

// float16, bfloat16, float32 or float64.
bool is_real(const Type& type);

// By value: whether it leads to `loss` through inputs that have a derivative. A node without a rule
// counts as if it had one.
XRT_API std::vector<bool> leading_to(const Graph& graph, ValueId loss);

}  // namespace xrt::autodiff
