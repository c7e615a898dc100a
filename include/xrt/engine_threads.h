// SPDX-License-Identifier: Apache-2.0
// What an executable may say about the threads that its runs take.
//
// The runtime lets launches begin only while all that run together keep to the process's thread
// budget. Of an executable that says nothing each run counts with CompileOptions::num_threads;
// runs on other devices than the CPU do not count.
#pragma once

#include "xrt/export.h"

namespace xrt {

// Threads that compute during a run, the caller's included.
struct ThreadUse {
  int threads = 1;
  // Runs that name the same pool share its `threads`: up to that many of them run at once and count
  // together as one. Null: each run has threads of its own.
  const void* pool = nullptr;
};

// An executable derives from this class too where a run takes other threads than
// CompileOptions::num_threads of its own.
class XRT_API TellsThreadUse {
 public:
  virtual ~TellsThreadUse();
  // Always the same answer; the pool lives as long as the executable.
  virtual ThreadUse thread_use() const = 0;
};

}  // namespace xrt
