// SPDX-License-Identifier: Apache-2.0
// What is known of a node's sizes before any run: of symbols, not of numbers.
#pragma once

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Whether operands with open dimensions may turn out not to go together, as far as symbols tell:
// not for an op on one tensor that takes any size, nor where the dimensions in question are the
// same symbol or number. Says yes for an op that it does not know.
XRT_API bool may_disagree(const Graph& graph, const Node& node);

}  // namespace xrt
