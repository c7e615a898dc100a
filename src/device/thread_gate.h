// SPDX-License-Identifier: Apache-2.0
// Lets launches begin while the threads of all that run stay within a budget. The others sleep, and
// begin in the order of their arrival; a launch that needs more than the whole budget runs alone.
//
// A launch that finds nobody else costs two atomic exchanges: it leaves a mark of itself, and
// whoever comes while it runs counts it from then on.
//
// Turns are not handed over at once: whoever comes while there is room begins, so that launches of
// microseconds do not wait for a sleeper to wake up. Who has waited for a millisecond is served
// before all that come later.
//
// Threads that look for work in a loop after a launch (LingeringThreads) are told to sleep when
// others begin that would have to share the budget with them.
//
// What a launch calls in its own thread belongs to it: it passes. A launch that waits in another
// thread for one that already runs on its behalf would wait forever, if that one waited here for
// it; where nothing has moved for a second and the process does not compute, the first in line
// begins.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "xrt/engine_threads.h"
#include "xrt/export.h"

namespace xrt {

// What a launch takes, and how its pool is (TellsPoolUse).
struct LaunchUse : ThreadUse {
  LaunchUse() = default;
  explicit LaunchUse(const ThreadUse& use) : ThreadUse(use) {}
  LaunchUse(int threads, const void* pool, const LingeringThreads* lingering = nullptr,
            int launches = 0)
      : ThreadUse{threads, pool}, lingering(lingering), launches(launches) {}

  const LingeringThreads* lingering = nullptr;
  int launches = 0;
};

class XRT_API ThreadGate {
 public:
  explicit ThreadGate(int budget) : budget_(budget) {}
  ThreadGate(const ThreadGate&) = delete;
  ThreadGate& operator=(const ThreadGate&) = delete;

  // That of the process, with thread_budget() (device/threads.h).
  static ThreadGate& process();

  int budget() const;
  // Launches that run already keep what they have.
  void set_budget(int budget);

  // Such threads are no more.
  void forget(const LingeringThreads* threads);

  // One launch: begins when the gate lets it, ends with the object, in the same thread.
  class XRT_API Pass {
   public:
    Pass(ThreadGate& gate, const LaunchUse& use);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    ThreadGate& gate_;
    const ThreadGate* outer_;
    LaunchUse use_;
    std::uint64_t mark_ = 0;  // of a launch that was alone
    int taken_ = 0;
  };

  // For a thread that works for another one's launch: `launch` is what current() said there.
  class XRT_API Inherited {
   public:
    explicit Inherited(const ThreadGate* launch);
    ~Inherited();
    Inherited(const Inherited&) = delete;
    Inherited& operator=(const Inherited&) = delete;

   private:
    const ThreadGate* outer_;
  };
  // The gate whose launch this thread is in, or null.
  static const ThreadGate* current();

  // How long this thread has waited at gates so far.
  static std::chrono::nanoseconds waited();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    const LaunchUse* use;
    Clock::time_point since;
    std::condition_variable woken;
    bool called = false;    // to try for itself
    bool admitted = false;  // served
    int taken = 0;
  };
  struct Pool {
    const void* pool;
    int launches, taken;
  };

  // state_: nobody runs or waits, or those that do are counted below; else the mark of the one
  // launch that runs, of which nothing is known but its use.
  static constexpr std::uint64_t kIdle = 0, kCounted = 1;
  static std::uint64_t mark_of(const LaunchUse& use);  // kIdle where it cannot be had
  static LaunchUse use_of(std::uint64_t mark);

  // Of a launch that ended: its threads may look for work for a while.
  struct Lingering {
    const LingeringThreads* threads;
    int others;  // than the caller
  };
  // `computing` threads do, those of a launch with `use` that begins among them.
  void let_others_rest(const LaunchUse& use, int computing);
  void note_lingering(const LaunchUse& use);
  void update_lingering();

  // In a process that was just forked: nobody runs but, perhaps, the launch that this thread is in.
  void forget_others();

  std::unique_lock<std::mutex> lock() const;
  // These need the lock. try_take() says no by -1, else what leave() is to give back.
  void count_the_lone_one();
  int try_take(const LaunchUse& use, bool by_force = false);
  void serve();
  int wait(const LaunchUse& use, std::unique_lock<std::mutex>& lock);
  void leave(const LaunchUse& use, int taken);

  std::atomic<std::uint64_t> state_{kIdle};
  mutable std::mutex mutex_;
  std::atomic<int> budget_;  // written under the lock
  int used_ = 0;
  int running_ = 0;          // launches that are counted
  int lone_taken_ = 0;       // by the one that was alone
  std::uint64_t ended_ = 0;  // launches
  std::vector<Pool> pools_;  // that launches run in; few
  std::deque<Waiter*> waiting_;

  // The only one that lingers, null where nobody does, or this gate's address for several.
  std::atomic<const void*> who_lingers_{nullptr};
  std::mutex lingering_mutex_;  // taken after mutex_, never before
  std::vector<Lingering> lingering_;
};

}  // namespace xrt
