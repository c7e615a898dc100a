// SPDX-License-Identifier: Apache-2.0
// What XLA takes minutes to compile: it fuses nodes that stand in a row, in time that grows with
// the square of their number, and makes a kernel for each part of a result.
#pragma once

#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::xla {

// Says no to one node of each row that has become too long, so that the row is cut there into
// functions, and to nodes of very many operands or results. `answers` are by NodeId::index.
void cut_long_rows(const Graph& graph, std::vector<Support>& answers);

// About how long compiling so many nodes takes, in seconds.
double seconds_to_compile(std::size_t nodes);

}  // namespace xrt::xla
