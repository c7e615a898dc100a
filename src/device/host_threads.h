// SPDX-License-Identifier: Apache-2.0
// Threads that the calling program already has, lent to what one of its threads runs.
//
// A program with an OpenMP pool of its own (PyTorch's, on GNU's OpenMP) keeps that pool's threads
// spinning for milliseconds after each parallel region. An engine with a second pool would wait for
// cores that the first one holds. Lent threads compute for the engine instead:
//
//   const LendThreads lend({GOMP_parallel, omp_get_thread_num, omp_get_num_threads, 4});
//   program->run(inputs, outputs);
//
// Engines that can use them ask lent_threads() in the thread that runs the function; the others
// ignore them.
#pragma once

#include "xrt/export.h"

namespace xrt {

struct HostThreads {
  // body(data) in `count` threads, the calling one among them as number 0; returns when all have.
  // Fewer threads than asked for are allowed. GOMP_parallel is such a function.
  void (*parallel)(void (*body)(void*), void* data, unsigned count, unsigned flags);
  int (*thread_num)();   // inside of body: 0 to num_threads() - 1
  int (*num_threads)();  // inside of body
  int count;             // of the pool, the calling thread included
};

// Lends threads to what the current thread runs while the object lives.
class XRT_API LendThreads {
 public:
  explicit LendThreads(const HostThreads& threads);
  ~LendThreads();
  LendThreads(const LendThreads&) = delete;
  LendThreads& operator=(const LendThreads&) = delete;

 private:
  HostThreads threads_;
  const HostThreads* outer_;
};

// What is lent to the current thread; null where nothing is.
XRT_API const HostThreads* lent_threads();

}  // namespace xrt
