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
// cgroup CPU quota (rounded up); at least 1. A malformed XRT_NUM_THREADS throws kInvalidArgument.
int default_thread_budget();

// What was set last, before that the default, which is read once.
XRT_API int thread_budget();

// kInvalidArgument for a number that is none of 1 to kMaxThreads. See xrt/program.h.
XRT_API void set_thread_budget(int threads);

// What a program that asks for so many threads (0: all there are) gets: no more than the budget.
XRT_API int granted_threads(int wanted);

}  // namespace xrt
