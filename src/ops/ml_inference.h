// SPDX-License-Identifier: Apache-2.0
// Types and shapes of ops of ai.onnx.ml for which the ONNX library has no rule, or one that leaves
// the shape open.
#pragma once

#include <onnx/defs/shape_inference.h>

#include "onnx/proto.h"
#include "xrt/graph.h"

namespace xrt {

bool has_ml_rule(const Node& node);

// Fills in what `context`, in which the library's own rule has left its results, lacks. Inputs that
// the op does not take are left to the engines' errors.
void infer_ml(const Node& node, onnx::InferenceContext& context);

}  // namespace xrt
