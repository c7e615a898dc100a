// SPDX-License-Identifier: Apache-2.0
// Sleeping until a counter in shared memory changes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace xrt {

// Returns when the counter is no longer `seen`, when it is woken, or after `ms` milliseconds, and
// now and then without a cause.
inline void futex_wait(const std::atomic<std::uint32_t>& counter, std::uint32_t seen, int ms) {
  const timespec most = {ms / 1000, (ms % 1000) * 1000000L};
  ::syscall(SYS_futex, &counter, FUTEX_WAIT, seen, &most, nullptr, 0);
}

inline void futex_wake(std::atomic<std::uint32_t>& counter) {
  ::syscall(SYS_futex, &counter, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace xrt
