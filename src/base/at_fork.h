// SPDX-License-Identifier: Apache-2.0
// What to do before and after the process forks, and what it waits for.
#pragma once

#include "base/fork_mutex.h"

namespace xrt {

// Functions for the thread that forks: before, afterwards in the parent, and in the child. Unlike
// those of pthread_atfork() they run while no other thread holds a ForkMutex (base/fork_mutex.h),
// so that a lock taken there may be one that is also taken by who holds such a mutex.
struct AtFork {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();
};

// For as long as the process lives.
void at_fork(const AtFork& functions);

// For calls of a library that takes a lock of its own for a moment: a child must not find it taken.
// Within, what holds of who has a ForkMutex holds.
class NoForkScope {
 public:
  NoForkScope() { NoFork::enter(); }
  ~NoForkScope() { NoFork::leave(); }
  NoForkScope(const NoForkScope&) = delete;
  NoForkScope& operator=(const NoForkScope&) = delete;
};

}  // namespace xrt
