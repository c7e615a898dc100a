// SPDX-License-Identifier: Apache-2.0
// Launch events of a program, kept while enabled.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "xrt/explanation.h"

namespace xrt {

class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  void enable(bool on) { enabled_.store(on, std::memory_order_relaxed); }
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  std::uint64_t next_run() { return runs_.fetch_add(1, std::memory_order_relaxed); }
  void record(const std::string& function, const std::string& engine, Clock::time_point start,
              Clock::time_point end, std::uint64_t run);
  std::vector<LaunchEvent> events() const;
  // Those, and none are kept.
  std::vector<LaunchEvent> take();

 private:
  static constexpr std::size_t kMaxEvents = 100'000;

  std::atomic<bool> enabled_{false};
  std::atomic<std::uint64_t> runs_{0};
  Clock::time_point origin_ = Clock::now();
  mutable ForkMutex mutex_;
  std::deque<LaunchEvent> events_;
};

}  // namespace xrt
