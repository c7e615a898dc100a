// SPDX-License-Identifier: Apache-2.0
// A step for which there are several generated kernels, and a library perhaps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engines/cuda/computation.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda {

// Queues the kernel of that name.
using Launch = std::function<void(const std::string& kernel, const Grid& grid,
                                  const Addresses& addresses, void* stream)>;

// `step` has a KernelStep and outlives what is made. Until a way is chosen, the library is taken
// where it has one. `saved`: by save(), or empty. Throws kEngine where it is of another step.
std::unique_ptr<Computation> make_kernel_choice(const LibraryOptions& options, const Step& step,
                                                Launch launch, std::string_view saved);

}  // namespace xrt::cuda
