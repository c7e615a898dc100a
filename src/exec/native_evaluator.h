// SPDX-License-Identifier: Apache-2.0
// Computes constant nodes with the native engine, for the passes.
#pragma once

#include "passes/pass_manager.h"

namespace xrt {

// Null where the native engine is not available: then constants are not folded.
Evaluator native_evaluator();

}  // namespace xrt
