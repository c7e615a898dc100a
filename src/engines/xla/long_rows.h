// SPDX-License-Identifier: Apache-2.0
// What XLA takes minutes to compile: it fuses nodes that stand in a row, in time that grows with
// the square of their number, and makes a kernel for each part of a result.
#pragma once

#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::xla {

// Says no to one node of each row that has become too long, so that the row is cut there into
// functions, and to nodes of very many operands or results, and to those that make an output behind
// a thousand others; to all nodes where compiling them would take longer than the limit of this
// work leaves, for nobody can end it. `answers` are by NodeId::index.
void cut_long_rows(const Graph& graph, std::vector<Support>& answers);

}  // namespace xrt::xla
