// SPDX-License-Identifier: Apache-2.0
// What an executable may say about the threads that its runs take.
//
// The runtime lets launches begin only while all that run together keep to the process's thread
// budget. Of an executable that says nothing each run counts with CompileOptions::num_threads;
// runs on other devices than the CPU do not count.
#pragma once

#include "xrt/export.h"

namespace xrt {

// Threads of a pool that look for work in a loop for a while when a run has ended, so that the next
// one need not wake them.
class XRT_API LingeringThreads {
 public:
  virtual ~LingeringThreads();
  // Others compute: unless a run in the pool is under way, its threads are to sleep until one
  // begins. Does not wait for them. May be called by any thread, before and during runs.
  virtual void rest() const = 0;
};

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

// An executable that names a pool derives from this class too where the pool is not like others.
class XRT_API TellsPoolUse {
 public:
  virtual ~TellsPoolUse();
  // How many runs in the pool may be under way at once; 0: as many as it has threads.
  virtual int runs_at_once() const;
  // The pool's threads, where they can be told to sleep. Their end is to be told
  // ThreadGate::process() (device/thread_gate.h).
  virtual const LingeringThreads* lingering() const;
};

}  // namespace xrt
