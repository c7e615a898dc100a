// SPDX-License-Identifier: Apache-2.0
// Types and shapes of every value, by the rules of the ONNX standard.
//
//   infer_shapes(graph);                  // what the model declares and what follows are merged
//   graph.set_type(input, concrete);      // specialise …
//   infer_shapes(graph, /*reset=*/true);  // … and compute everything anew
//
// - Each op's own rule of the ONNX library is used; ops of other domains keep the types they have.
// - Symbols are kept. Integer values that make up shapes are followed (Shape → Gather → Concat →
//   Reshape), also where only some of their entries are known.
// - Sub-graphs are inferred with the types of what they capture.
// - A declared type that contradicts the inferred one, or a node that breaks its op's rule, is
//   kInvalidModel naming the node. Time is linear in the number of nodes.
#pragma once

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// `reset` forgets the types of node outputs first (but not those that only the model can know: the
// outputs of ops without a rule).
XRT_API void infer_shapes(Graph& graph, bool reset = false);

// infer_shapes of a graph whose file may declare shapes that are wrong: where ranks or dimensions
// contradict what follows from the inputs, the latter holds, with a warning.
XRT_API void infer_shapes_of_file(Graph& graph);

// Of the body of a Loop: forgets the sizes of carried values that what the body makes of them does
// not have, or (`unsure`) does not surely have. False where there are none; types that follow are
// inferred anew by the caller.
XRT_API bool loosen_carried(Graph& body, bool unsure);
// Where that took so many turns, each of which told what one value more becomes: forgets the sizes
// of all carried values.
inline constexpr int kMostLoosenings = 16;
XRT_API void forget_carried(Graph& body);

// infer_shapes, and integer values of rank 0 or 1 that are known in full (a Shape of static
// dimensions, what Gather, Concat, Mul, … make of it) become constants; graph outputs stay as they
// are. True if any did.
XRT_API bool fold_known_values(Graph& graph);

}  // namespace xrt
