// SPDX-License-Identifier: Apache-2.0
// Attributes that say yes or no.
#pragma once

#include "xrt/graph.h"

namespace xrt {

// Writes 1 and 0 for what the flags of a node of the standard mean. Files hold other numbers, which
// libraries read in two ways; ONNX Runtime's is kept: some flags are set by 1 alone, others by any
// number but 0.
void normalize_flags(Attributes& attributes);

}  // namespace xrt
