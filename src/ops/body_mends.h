// SPDX-License-Identifier: Apache-2.0
// Function bodies of the ONNX library that do not hold for all that their ops take.
#pragma once

#include <onnx/onnx_pb.h>

#include "onnx/proto.h"
#include "xrt/graph.h"

namespace xrt {

// Makes the body of the node, which is one of the graph's, hold for the types of its operands.
void mend_body(const Graph& graph, const Node& node, onnx::FunctionProto& function);

}  // namespace xrt
