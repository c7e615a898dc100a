// SPDX-License-Identifier: Apache-2.0
// Keeps the threads of all launches that run at once within a budget.
//
// Every engine is created with a cap on its threads, and a launch takes what its executable states
// (ThreadUse). A launch that does not fit beside those that run waits, in order of arrival; one
// that wants more than the whole budget runs alone. When there is room, the first in line is woken;
// until it is awake, others of the engine that has just begun a launch may begin if they fit, so
// that short launches do not wait for a thread to wake up. If it then finds no room, the next room
// is kept for it.
//
// While launches of several engines wait, the engines take turns of a few milliseconds: an engine's
// threads look for work for up to a millisecond after a run, beside those of the next launch if
// that is another engine's.
//
//   const ThreadGate::Pass pass(ThreadGate::process(), {.threads = 4}, "native");
//   ...  // the launch
//
// A launch within a launch of the same thread takes nothing. A launch must not wait for one that
// another thread begins, unless that thread has said for which launch it works (Inherited): the
// gate cannot know, and both would wait for ever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// What a launch takes (ExecutableInfo).
struct ThreadUse {
  int threads = 1;             // the caller's included
  const void* pool = nullptr;  // launches in it take its threads once
  int runs_at_once = 0;        // in the pool; 0: as many as it has threads
};

class XRT_API ThreadGate {
 public:
  // `turn`: of an engine while others wait; several times what threads look for work after a run.
  explicit ThreadGate(int budget, std::chrono::nanoseconds turn = std::chrono::milliseconds(5))
      : turn_(turn), budget_(budget) {}
  ThreadGate(const ThreadGate&) = delete;
  ThreadGate& operator=(const ThreadGate&) = delete;

  // The one of the process, with thread_budget() (device/threads.h).
  static ThreadGate& process();

  int budget() const;
  // For launches that begin later: those that run keep what they have.
  void set_budget(int budget);

  // How many launches wait.
  int waiting() const;

  // What a launch has taken.
  struct Share {
    const void* pool = nullptr;
    int threads = 0;
    int process = 0;  // processes_ when it began
  };

  // One launch: begins in the constructor, which waits until it may, and ends with the object, in
  // the same thread. kEngine where the user interrupts the wait (base/interrupt.h).
  class XRT_API Pass {
   public:
    // 0 threads: nothing is taken. `engine` lives as long as the object.
    Pass(ThreadGate& gate, const ThreadUse& use, std::string_view engine = {});
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    friend class ThreadGate;
    void begin();

    ThreadGate* gate_;  // null: nothing is taken
    const ThreadGate* outer_ = nullptr;
    Pass* outer_holder_ = nullptr;
    ThreadUse use_;
    std::string_view engine_;
    bool is_held_ = false;  // the share
    Share share_;
    std::chrono::steady_clock::time_point since_;
  };

  // Between two turns of a loop within a launch of this thread, while none of its threads works:
  // where others wait, and the launch has had its threads for a while, they go first. Throws as a
  // Pass does.
  static void give_way();

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

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    Waiter(const ThreadUse& use, std::string_view engine) : use(use), engine(engine) {}

    const ThreadUse& use;
    std::string_view engine;
    bool called = false;   // woken, to begin if there still is room
    bool insists = false;  // called, and there was no room
    bool begun = false;    // by the one that made room
    Share share;
    std::condition_variable woken;
  };
  struct Pool {
    const void* address;
    int runs;
    int threads;
  };

  Share enter(const ThreadUse& use, std::string_view engine);
  void leave(const Share& share);

  // These need the lock.
  std::vector<Pool>::iterator find_pool(const void* address);
  bool fits(const ThreadUse& use);
  Share begin(const ThreadUse& use, std::string_view engine);
  Waiter* first_in_line() const;  // null where nobody waits
  void remove(const Waiter* waiter);
  void wait(Waiter& mine, std::unique_lock<std::mutex>& lock);
  void serve();  // whoever may begin now

  const std::chrono::nanoseconds turn_;
  mutable std::mutex mutex_;
  int budget_;
  int used_ = 0;
  int processes_ = 0;        // forks between the process that made the gate and this one
  std::vector<Pool> pools_;  // that launches run in; few
  std::deque<Waiter*> line_;
  std::string engine_;  // of the launch that began last
  Clock::time_point turn_ends_;
};

}  // namespace xrt
