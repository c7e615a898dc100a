// SPDX-License-Identifier: Apache-2.0
// What must be refused before the ONNX library's rules see a node, because they would loop forever
// or read outside of their memory (ONNX 1.23.2; found by mutating models), and what they say that
// is not so.
#pragma once

#include <onnx/defs/shape_inference.h>

#include "onnx/proto.h"
#include "xrt/graph.h"

namespace xrt {

// Throws kInvalidModel.
void guard_inference(const Graph& graph, const Node& node);

// Whether the builder of the node's function body may be called.
bool may_build_function(const Graph& graph, const Node& node);

// Puts right what a rule said of results: it may have taken dimensions that are not known for 0.
void mend_inferred(const Graph& graph, const Node& node, onnx::InferenceContext& context);

}  // namespace xrt
