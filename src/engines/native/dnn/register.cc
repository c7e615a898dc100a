// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/register.h"

namespace xrt::native::dnn {

void register_kernels(KernelRegistry&) {}

}  // namespace xrt::native::dnn
