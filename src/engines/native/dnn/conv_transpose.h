// SPDX-License-Identifier: Apache-2.0
// Which transposed convolutions oneDNN computes.
#pragma once

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::native::dnn {

// Of a ConvTranspose of `x` by `w`. The general kernel computes the others.
Support supports_deconvolution(const Node& node, const Type& x, const Type& w);

}  // namespace xrt::native::dnn
