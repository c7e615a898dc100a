// SPDX-License-Identifier: Apache-2.0
// Integer values that shape inference knows in full become constants: Shape and Size of static
// dimensions, and what Gather, Slice, Concat, Add, Mul, … make of known parts of shapes, also where
// other parts are symbols. The nodes that made them are left to dead code removal.
//
// Graph outputs stay computed.
#include "ops/shape_inference.h"
#include "passes/passes.h"

namespace xrt {

bool fold_shape_subgraphs(Graph& graph) { return fold_known_values(graph); }

}  // namespace xrt
