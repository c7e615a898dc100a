// SPDX-License-Identifier: Apache-2.0
// Kernels on oneDNN primitives. They come before the reference kernels of the same ops.
#pragma once

#include "engines/native/kernel.h"

namespace xrt::native::dnn {

void register_kernels(KernelRegistry& registry);

}  // namespace xrt::native::dnn
