// SPDX-License-Identifier: Apache-2.0
#include "exec/profiler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

namespace xrt {

void Profiler::record(const std::string& function, const std::string& engine,
                      Clock::time_point start, Clock::time_point end, std::uint64_t run) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  LaunchEvent event;
  event.function = function;
  event.engine = engine;
  event.start_us = Microseconds(start - origin_).count();
  event.duration_us = Microseconds(end - start).count();
  event.thread = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  event.run = run;
  const std::lock_guard lock(mutex_);
  if (events_.size() == kMaxEvents) events_.pop_front();
  events_.push_back(std::move(event));
}

std::vector<LaunchEvent> Profiler::events() const {
  const std::lock_guard lock(mutex_);
  return {events_.begin(), events_.end()};
}

std::vector<LaunchEvent> Profiler::take() {
  std::deque<LaunchEvent> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(events_);
  }
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

}  // namespace xrt
