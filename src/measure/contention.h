// SPDX-License-Identifier: Apache-2.0
// Whether other programs disturb a measurement: this process's threads wait for a processor while
// others keep processors busy. Waiting alone may be the engines' own doing, and what others do may
// happen on processors that this process does not use.
#pragma once

#include <atomic>
#include <chrono>

#include "xrt/export.h"

namespace xrt {

class XRT_API Contention {
 public:
  Contention();  // begins to watch

  // Since this object was made. False where the system does not tell (Linux: /proc).
  bool disturbed() const;
  // Time that threads waited for a processor, summed over them, over the time that went by.
  double waiting_share() const;
  // The share of the machine's processors' time that others took.
  double others_share() const;

  // For tests whose engines sleep: how busy the machine is does not count.
  static std::atomic<bool> disregarded;

 private:
  struct Counters {
    double waited_s = 0, own_s = 0;        // of this process
    double busy_ticks = 0, all_ticks = 0;  // of the machine
  };
  static Counters now();

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Counters begin_;
};

}  // namespace xrt
