// SPDX-License-Identifier: Apache-2.0
// Computes constant nodes with the native engine, for the passes.
#pragma once

#include <cstddef>

#include "passes/pass_manager.h"

namespace xrt {

// Null where the native engine is not available: then constants are not folded. What takes more
// than `max_memory_bytes` while it is computed is not folded either; 0: 1 GiB.
Evaluator native_evaluator(std::size_t max_memory_bytes = 0);

}  // namespace xrt
