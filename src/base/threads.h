// SPDX-License-Identifier: Apache-2.0
// The process's one thread budget. Engines get their share of it in CompileOptions::num_threads
// and never ask the hardware themselves.
#pragma once

#include "xrt/export.h"

namespace xrt {

// XRT_NUM_THREADS if it is set to 1 or more, else the least of the CPU affinity mask and the cgroup
// CPU quota (rounded up); at least 1. Read once. A malformed XRT_NUM_THREADS throws
// kInvalidArgument.
XRT_API int thread_budget();

}  // namespace xrt
