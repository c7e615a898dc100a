// SPDX-License-Identifier: Apache-2.0
// The kernel families of this folder.
#pragma once

#include "engines/native/kernel.h"

namespace xrt::native {

// All of the families below.
void register_kernels(KernelRegistry& registry);

void register_shape_kernels(KernelRegistry& registry);

}  // namespace xrt::native
