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

// How the threads that are granted to a program are divided among runs at once.
struct ThreadShare {
  int threads = 1;  // of one run
  int divided = 1;  // runs at once that they were divided for
  int streams = 1;  // runs at once that are carried out: more of them wait for threads
};
// `streams` 0: nothing is divided, and as many runs take place at once as the budget has room for.
XRT_API ThreadShare thread_share(int num_threads, int streams);

}  // namespace xrt
