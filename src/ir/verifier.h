// SPDX-License-Identifier: Apache-2.0
// The rules of a well-formed Graph.
//
// Each rule has a label; the error's message begins with it, and tests/ir/verifier_test.cc breaks
// each of them once.
//
//   ids           every input, output, use and capture names a live value of this graph
//   origins       a value is made by exactly the node, input, constant or capture it says
//   names         names of values and nodes are not empty, unique and found by name
//   uses          the uses of a value are exactly the places that read it
//   acyclic       no node depends on itself
//   captures      a sub-graph's captures are values of the graph around; their types agree
//   constants     the type of a constant is that of its tensor
//   dims          no type has a negative dimension
//   defaults      an input's default has the input's dtype and a shape that fits
//   opset         the standard domain is at the pinned opset
#pragma once

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Throws kInvalidModel (or kInternal for what no model can cause) with the rule's label.
XRT_API void verify(const Graph& graph);

}  // namespace xrt
