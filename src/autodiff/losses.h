// SPDX-License-Identifier: Apache-2.0
// Loss functions, with PyTorch's formulas.
#pragma once

#include "autodiff/emitter.h"
#include "xrt/autodiff.h"

namespace xrt::autodiff {

// Adds the loss of `prediction` against `target` and returns the scalar. Throws kInvalidArgument
// where the loss is unknown or the shapes or types do not fit.
XRT_API ValueId add_loss(Graph& graph, const LossOptions& loss, ValueId prediction, ValueId target);

// Whether targets are numbers of classes, along axis 1 of the prediction.
XRT_API bool takes_classes(const LossOptions& loss);

// The type of target that goes with predictions of this type.
XRT_API Type target_type(const LossOptions& loss, const Type& prediction);

}  // namespace xrt::autodiff
