// SPDX-License-Identifier: Apache-2.0
// Python that users bring for an op of theirs (xrt/op.h: OpDefinition::code["tvm"]): source whose
// function `build(bb, *inputs, **attributes)` makes Relax expressions in a relax.BlockBuilder. It
// runs in the compiler's process (user_code.py).
#pragma once

#include <string>

#include "xrt/graph.h"

namespace xrt::tvm_engine {

// Whether the op of the node has code for this engine. Throws kEngine where it cannot be made.
bool has_user_code(const Graph& graph, const Node& node);

// The code of all such nodes, for user_code.py: a JSON array of {"node", "op", "output" (the name
// of the node's first one), "source", "attributes": {name: [kind, value]}, "results": [[dtype,
// [dims]]]}.
std::string user_code(const Graph& graph);

}  // namespace xrt::tvm_engine
