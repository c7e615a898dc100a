// SPDX-License-Identifier: Apache-2.0
#include "base/fork_mutex.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/at_fork.h"

namespace xrt {
namespace {

// Longer than engines' libraries take to load. Then the child may wait for ever: the parent, which
// may be waiting for itself, must not.
constexpr std::chrono::seconds kLongestWait{5};
constexpr std::chrono::microseconds kTurn{20};

thread_local int depth = 0;  // of this thread

// Threads count themselves in different places, so that they need not wait for each other's caches.
struct alignas(64) Count {
  std::atomic<int> threads = 0;
};
constexpr std::size_t kCounts = 16;

std::size_t own_place() {
  static std::atomic<std::size_t> next = 0;
  thread_local const std::size_t place = next++ % kCounts;
  return place;
}

class Gate {
 public:
  static Gate& process() {
    static auto* const gate = [] {
      auto* made = new Gate;  // never destroyed: threads may work until the process ends
      ::pthread_atfork([] { process().close(); }, [] { process().open(); },
                       [] { process().open_in_child(); });
      return made;
    }();
    return *gate;
  }

  void enter() {
    std::atomic<int>& own = inside_[own_place()].threads;
    for (;;) {
      own.fetch_add(1);
      if (!is_closed_.load()) return;
      own.fetch_sub(1);
      while (is_closed_.load()) std::this_thread::sleep_for(kTurn);  // a fork takes a moment
    }
  }

  void add(const AtFork& functions) {
    const std::lock_guard lock(forks_);
    functions_.push_back(functions);
  }

  void leave() { inside_[own_place()].threads.fetch_sub(1); }

 private:
  // The thread that forks may be within itself: what it calls there may fork.
  static int own() { return depth > 0 ? 1 : 0; }

  int inside() const {
    int threads = 0;
    for (const Count& count : inside_) threads += count.threads.load();
    return threads;
  }

  void close() {
    forks_.lock();
    is_closed_ = true;
    const auto end = std::chrono::steady_clock::now() + kLongestWait;
    while (inside() > own() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kTurn);
    }
    for (const AtFork& each : functions_) each.before();
  }

  void open() {
    for (const AtFork& each : functions_) each.in_parent();
    is_closed_ = false;
    forks_.unlock();
  }

  void open_in_child() {
    for (const AtFork& each : functions_) each.in_child();
    for (Count& count : inside_) count.threads = 0;
    inside_[own_place()].threads = own();
    is_closed_ = false;
    forks_.unlock();
  }

  std::mutex forks_;  // held by who forks, and of functions_
  std::vector<AtFork> functions_;
  std::array<Count, kCounts> inside_;
  std::atomic<bool> is_closed_ = false;
};

// Made as the library is loaded: a child of a process that forks meanwhile would wait for who makes
// it.
[[maybe_unused]] const Gate& made_at_load = Gate::process();

}  // namespace

void at_fork(const AtFork& functions) { Gate::process().add(functions); }

void NoFork::enter() noexcept {
  if (depth++ == 0) Gate::process().enter();
}

void NoFork::leave() noexcept {
  if (--depth == 0) Gate::process().leave();
}

}  // namespace xrt
