// SPDX-License-Identifier: Apache-2.0
// When one run is to be given up: at a time, or when somebody says so. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>

namespace xrt {

class RunLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // Seconds from now; 0 or less: no time is set.
  explicit RunLimit(double seconds) : seconds_(seconds) {
    if (seconds > 0 && seconds < kForEver) {
      end_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }
  }
  RunLimit(const RunLimit&) = delete;
  RunLimit& operator=(const RunLimit&) = delete;

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // Costs a reading of the clock where a time is set.
  bool is_over() const {
    return is_cancelled() || (end_ != Clock::time_point::max() && Clock::now() >= end_);
  }
  double seconds() const { return seconds_; }
  // Seconds until the time that is set, or a century.
  double left() const {
    if (end_ == Clock::time_point::max()) return kForEver;
    return std::chrono::duration<double>(end_ - Clock::now()).count();
  }

 private:
  static constexpr double kForEver = 3e9;  // a century, which fits the clock

  const double seconds_;
  Clock::time_point end_ = Clock::time_point::max();
  std::atomic<bool> cancelled_{false};
};

}  // namespace xrt
