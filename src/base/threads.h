// SPDX-License-Identifier: Apache-2.0
// The process's one thread budget. Engines get their share of it in CompileOptions::num_threads
// and never ask the hardware themselves.
#pragma once

#include "xrt/export.h"

namespace xrt {

// More threads than any machine has cores for; libraries that make them die of a thread that the
// system refuses.
inline constexpr int kMaxThreads = 4096;

// XRT_NUM_THREADS if it is set to 1 to kMaxThreads, else the least of the CPU affinity mask and the
// cgroup CPU quota (rounded up); at least 1. Read once. A malformed XRT_NUM_THREADS throws
// kInvalidArgument.
XRT_API int thread_budget();

}  // namespace xrt
