// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engines/native/kernel.h"

namespace xrt::native {

// The kernel of MatMulInteger for a constant matrix on the right; null where there is none.
std::unique_ptr<Kernel> packed_matmul_integer(const KernelCreateContext& create);

}  // namespace xrt::native
