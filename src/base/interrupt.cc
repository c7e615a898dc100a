// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/work_scope.h"
#include "xrt/error.h"

namespace xrt {
namespace {

std::atomic<InterruptCheck> current{nullptr};

bool is_first_thread() {
  static thread_local const bool first = ::syscall(SYS_gettid) == ::getpid();
  return first;
}

}  // namespace

InterruptCheck set_interrupt_check(InterruptCheck check) { return current.exchange(check); }

bool is_interrupted() {
  const InterruptCheck check = current.load(std::memory_order_relaxed);
  return check != nullptr && is_first_thread() && check();
}

void throw_if_interrupted() {
  WorkScope::check_time();
  if (current.load(std::memory_order_relaxed) == nullptr || !is_first_thread()) return;
  using Clock = std::chrono::steady_clock;
  static thread_local Clock::time_point asked;
  const Clock::time_point now = Clock::now();
  if (now - asked < std::chrono::milliseconds(50)) return;
  asked = now;
  if (!is_interrupted()) return;
  asked = {};  // what catches this and goes on is stopped at its next turn
  throw Error(ErrorCode::kEngine, "interrupted");
}

StepInterrupts::StepInterrupts()
    : asks_(current.load(std::memory_order_relaxed) != nullptr && WorkScope::may_stop() &&
            is_first_thread()) {}

void StepInterrupts::ask() {
  constexpr std::int64_t kIntervalMs = 250;
  static thread_local std::int64_t asked = 0;
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);  // a few nanoseconds
  const std::int64_t now = time.tv_sec * std::int64_t{1000} + time.tv_nsec / 1'000'000;
  if (now - asked < kIntervalMs) return;
  asked = now;
  if (is_interrupted()) throw Error(ErrorCode::kEngine, "interrupted");
}

}  // namespace xrt
