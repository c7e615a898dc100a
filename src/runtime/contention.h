// SPDX-License-Identifier: Apache-2.0
// Whether other work disturbs a measurement: how long this process's threads wait for a processor
// while they could run.
#pragma once

#include <atomic>
#include <chrono>

#include "xrt/export.h"

namespace xrt {

class XRT_API Contention {
 public:
  Contention();  // begins to watch

  // Time that threads of this process waited for a processor since this object was made, summed
  // over them, over the time that went by; 0 where the system does not tell (Linux: /proc/self).
  double share() const;

  // For tests whose engines sleep: how busy the machine is does not count.
  static std::atomic<bool> disregarded;

 private:
  static double waited_s();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double begin_s_;
};

}  // namespace xrt
