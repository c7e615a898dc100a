// SPDX-License-Identifier: Apache-2.0
// Kernels of users' ops (xrt/op.h).
#pragma once

#include "engines/native/kernel.h"

namespace xrt::native {

// Runs the kernel of the op that is registered for the node. Null where there is none.
const KernelDef* custom_op_kernel(const NodeView& node);

}  // namespace xrt::native
