// SPDX-License-Identifier: Apache-2.0
// What a function's arithmetic takes at least. A library's call ends when it likes: what cannot be
// done within the time that is left is not begun.
#pragma once

#include <string>

#include "xrt/graph.h"

namespace xrt {

struct LeastTime {
  double seconds = 0;
  std::string node;  // with most of it, for people
};

// Of the nodes whose sizes are known, on so many threads. `narrow`: it may be computed in half
// precision.
LeastTime least_time(const Graph& function, bool narrow, int threads);

// Throws kResource where less is left of the limit that holds for this thread.
void check_least_time(const LeastTime& least);

}  // namespace xrt
