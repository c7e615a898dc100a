// SPDX-License-Identifier: Apache-2.0
// The ops of the domain "xrt": gradients that have no good form among the standard ops, what
// recomputation needs, and an LSTM on bytes. Each is one row of the table in own_ops.cc, a schema
// of the ONNX library like those of the standard: import, type inference, canonical form and
// documentation read it there, and the body for engines that do not know the op.
#pragma once

#include "xrt/export.h"

namespace xrt {

inline constexpr const char* kOwnDomain = "xrt";

// Registers the schemas, once in a process. Whoever looks a schema up calls it first.
XRT_API void register_own_ops();

}  // namespace xrt
