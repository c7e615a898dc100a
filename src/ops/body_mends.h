// SPDX-License-Identifier: Apache-2.0
// Function bodies of the ONNX library that do not hold for all that their ops take.
#pragma once

#include <onnx/onnx_pb.h>

#include "onnx/proto.h"
#include "xrt/graph.h"

namespace xrt {

// Makes the body of the node hold for operands whose first one has this element type.
void mend_body(const Node& node, DType dtype, onnx::FunctionProto& function);

}  // namespace xrt
