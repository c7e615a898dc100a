// SPDX-License-Identifier: Apache-2.0
#include "measure/user_runs.h"

#include <atomic>

namespace xrt {
namespace {

using Clock = std::chrono::steady_clock;

struct Counters {
  std::atomic<int> watchers{0};
  std::atomic<int> active{0};
  std::atomic<Clock::rep> last{0};  // when a run ended
};

Counters& counters() {
  static Counters counters;
  return counters;
}

}  // namespace

UserRun::UserRun() : counted_(counters().watchers.load(std::memory_order_relaxed) > 0) {
  if (counted_) ++counters().active;
}

UserRun::~UserRun() {
  if (!counted_) return;
  counters().last = Clock::now().time_since_epoch().count();
  --counters().active;
}

WatchUserRuns::WatchUserRuns() { ++counters().watchers; }
WatchUserRuns::~WatchUserRuns() { --counters().watchers; }

bool WatchUserRuns::quiet_for(std::chrono::nanoseconds time) {
  if (counters().active > 0) return false;
  const Clock::time_point last{Clock::duration(counters().last.load())};
  return Clock::now() - last >= time;
}

}  // namespace xrt
