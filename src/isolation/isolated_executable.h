// SPDX-License-Identifier: Apache-2.0
// What an engine compiled in a worker.
#pragma once

#include <memory>

#include "isolation/worker_pool.h"
#include "xrt/engine.h"
#include "xrt/tensor.h"

namespace xrt {

// Compiled there, or loaded from `blob` where that is defined.
std::shared_ptr<const Executable> make_isolated_executable(std::shared_ptr<WorkerPool> pool,
                                                           const Function& function,
                                                           const CompileOptions& options,
                                                           Tensor blob);

}  // namespace xrt
