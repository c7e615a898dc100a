// SPDX-License-Identifier: Apache-2.0
// Mutexes that no thread holds while the process forks: a child that fork() made finds them free,
// and what they guard whole.
//
// fork() waits for whoever holds one, and who wants one waits for fork(). So they are for moments,
// not for work that takes long, and who holds one must not wait for what a forking thread may have
// (Python's lock). fork() waits a few seconds at most.
//
// Where a lock is held for long, the child gets another one: PerProcess (base/per_process.h).
#pragma once

#include <mutex>
#include <shared_mutex>

#include "xrt/export.h"

namespace xrt {

// Of the whole process: within, no other thread forks. Threads may enter again.
class XRT_API NoFork {
 public:
  static void enter() noexcept;
  static void leave() noexcept;
};

template <typename Mutex>
class ForkSafe {
 public:
  void lock() {
    NoFork::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    NoFork::leave();
  }
  void lock_shared() {
    NoFork::enter();
    mutex_.lock_shared();
  }
  void unlock_shared() {
    mutex_.unlock_shared();
    NoFork::leave();
  }

 private:
  Mutex mutex_;
};

using ForkMutex = ForkSafe<std::mutex>;
using SharedForkMutex = ForkSafe<std::shared_mutex>;

}  // namespace xrt
