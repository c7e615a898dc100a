// SPDX-License-Identifier: Apache-2.0
// What tests of workers depend on.
#pragma once

#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace xrt {

// The version of Landlock that this kernel has, 0 where it has none or another filter refuses it.
inline int landlock_of_kernel() {
  const auto version = ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0},
                                 LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

}  // namespace xrt
