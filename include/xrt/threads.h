// SPDX-License-Identifier: Apache-2.0
// The thread budget of the process.
#pragma once

#include "xrt/export.h"

namespace xrt {

// The process's one thread budget: what was set, else XRT_NUM_THREADS, else the least of affinity
// and cgroup quota. Launches of all programs and engines begin only while the CPU threads of all
// that run stay within it; the others wait asleep, in the order of their arrival.
XRT_API int thread_budget();
// Holds for launches that begin from now on. Programs that are there keep the threads that they
// were compiled for, as far as the budget allows: a launch that wants more of them than there are
// runs alone. kInvalidArgument for less than 1 or more than 4096.
XRT_API void set_thread_budget(int threads);

}  // namespace xrt
