// SPDX-License-Identifier: Apache-2.0
// What a function's values take at least, for engines that allocate by themselves and do not tell
// how much (ExecutableInfo::workspace_bytes): what has no room is not begun.
#pragma once

#include <cstddef>
#include <string>

#include "xrt/graph.h"

namespace xrt {

struct LeastMemory {
  std::size_t bytes = 0;  // alive at once between two nodes
  std::string node;       // after which they are, for people
};

// Of the values within the function whose sizes are known, computed in the graph's order. What it
// reads and returns is not its own. `narrow`: floats may be kept in half precision.
LeastMemory least_memory(const Graph& function, bool narrow);

// Throws kResource where a run of this thread may not take so much more.
void check_least_memory(const LeastMemory& least);

}  // namespace xrt
