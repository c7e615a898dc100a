// SPDX-License-Identifier: Apache-2.0
// Where the CPU plugin must not move ops across each other.
//
// In a graph that quantises it moves scales and zero points, and other factors and summands
// that are constants, behind the ops that follow, so that those compute with bytes. For some ops
// what comes of it is another result: a pad is not divided by the scale, a mean is rounded to a
// byte, the epsilon of a normalisation is multiplied by the scale. In any graph it makes a factor
// before a convolution a part of the weights, also where it belongs to places, and it computes the
// function behind a maximum before it, also where that does not rise all the way. Of an attention
// and what is computed of its result it makes one kernel, which some functions have not, and which
// crashes for a difference or a quotient that several read, or where the result and another
// computed value make one that is transposed, and is wrong where it transposes the queries and not
// the result, or the other way round, be it for who else reads the one or the other. The README
// lists the faults one by one.
#pragma once

#include <optional>

#include "xrt/graph.h"

namespace xrt::openvino {

// An op of lowerings.h's domain: its input as it is, and nothing is moved across it.
inline constexpr const char* kBarrier = "Barrier";

// The graph with such a node before each operand that must stay where it is, in bodies too; nothing
// where there is none.
std::optional<Graph> with_barriers(const Graph& graph);

}  // namespace xrt::openvino
