// SPDX-License-Identifier: Apache-2.0
// The gate of the thread budget: what runs at once is counted by the launches themselves, and the
// order in which launches wait is made before there is room for any.
#include "device/thread_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/interrupt.h"
#include "base/run_limit.h"
#include "base/work_scope.h"
#include "device/threads.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Pass = ThreadGate::Pass;
using std::chrono::microseconds;

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

// How much there ever was at once.
class Peak {
 public:
  void begin(int amount) {
    const int now = now_ += amount;
    int seen = peak_;
    while (seen < now && !peak_.compare_exchange_weak(seen, now)) {
    }
  }
  void end(int amount) { now_ -= amount; }
  int value() const { return peak_; }

 private:
  std::atomic<int> now_{0}, peak_{0};
};

// A launch in a thread of its own, which runs from here until end().
class Running {
 public:
  Running(ThreadGate& gate, ThreadUse use)
      : thread_([&gate, use, this] {
          const Pass pass(gate, use);
          begun_ = true;
          wait_until([&] { return ended_.load(); });
        }) {
    wait_until([&] { return begun_.load(); });
  }
  ~Running() { end(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void end() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> begun_{false}, ended_{false};
  std::thread thread_;
};

// Launches in threads of their own, each of which waits before the next one comes.
class Line {
 public:
  explicit Line(ThreadGate& gate) : gate_(gate) {}
  ~Line() {
    for (std::thread& thread : threads_) thread.join();
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void add(const std::string& name, ThreadUse use, const std::string& engine = "") {
    const int before = gate_.waiting();
    threads_.emplace_back([this, name, use, engine] {
      const Pass pass(gate_, use, engine);
      const std::lock_guard lock(mutex_);
      begun_ += name;
    });
    wait_until([&] { return gate_.waiting() > before; });
  }
  // In their order, when all have.
  std::string begun() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return begun_;
  }

 private:
  ThreadGate& gate_;
  std::mutex mutex_;
  std::string begun_;
  std::vector<std::thread> threads_;
};

TEST(ThreadGate, WhatRunsAtOnceStaysWithinTheBudget) {
  ThreadGate gate(4);
  Peak threads;
  in_threads(8, [&](int t) {
    const int wanted = 1 + t % 4;
    for (int i = 0; i < 200; ++i) {
      const Pass pass(gate, {wanted});
      threads.begin(wanted);
      if (i % 8 == 0) std::this_thread::sleep_for(microseconds(100));
      threads.end(wanted);
    }
  });
  EXPECT_LE(threads.value(), 4);
}

TEST(ThreadGate, WhatFitsRunsAtOnce) {
  ThreadGate gate(4);
  const Pass first(gate, {2});
  in_threads(1, [&](int) {
    const Pass second(gate, {1});
    in_threads(1, [&](int) { const Pass third(gate, {1}); });
  });
  EXPECT_EQ(gate.waiting(), 0);
}

TEST(ThreadGate, MoreThanTheBudgetRunsAlone) {
  ThreadGate gate(2);
  Peak launches;
  in_threads(4, [&](int t) {
    for (int i = 0; i < 200; ++i) {
      const Pass pass(gate, {t == 0 ? 16 : 3});
      launches.begin(1);
      if (i % 8 == 0) std::this_thread::sleep_for(microseconds(100));
      launches.end(1);
    }
  });
  EXPECT_EQ(launches.value(), 1);
}

TEST(ThreadGate, LaunchesBeginInOrder) {
  ThreadGate gate(2);
  std::optional<Pass> running(std::in_place, gate, ThreadUse{2});
  Line line(gate);
  for (const std::string name : {"A", "B", "C", "D"}) line.add(name, {2});
  running.reset();
  EXPECT_EQ(line.begun(), "ABCD");
}

TEST(ThreadGate, ASmallLaunchDoesNotOvertakeALargeOne) {
  ThreadGate gate(2);
  std::optional<Pass> running(std::in_place, gate, ThreadUse{1});
  Line line(gate);
  line.add("2", {2});
  line.add("1", {1});  // there is room for it, and it waits
  running.reset();
  EXPECT_EQ(line.begun(), "21");
}

TEST(ThreadGate, EnginesTakeTurns) {
  for (const auto& [turn, order] :
       {std::pair(std::chrono::hours(1), "xxyyz"), {std::chrono::hours(0), "yxzyx"}}) {
    ThreadGate gate(1, turn);
    std::optional<Pass> running(std::in_place, gate, ThreadUse{1}, "x");
    Line line(gate);
    for (const std::string name : {"y", "x", "z", "y", "x"}) line.add(name, {1}, name);
    running.reset();
    EXPECT_EQ(line.begun(), order);
  }
}

TEST(ThreadGate, LaunchesOfOnePoolCountOnce) {
  ThreadGate gate(2);
  const int a = 0, b = 0;
  Running first(gate, {2, &a}), second(gate, {2, &a});
  // No more at once than the pool has threads, and none beside it.
  Line line(gate);
  line.add("a", {2, &a});
  line.add("b", {2, &b});
  line.add("1", {1});
  first.end();
  wait_until([&] { return gate.waiting() == 2; });
  second.end();  // the last launch of the pool gives its threads back
  EXPECT_EQ(line.begun(), "ab1");
}

TEST(ThreadGate, APoolMayTakeFewerLaunchesThanItHasThreads) {
  ThreadGate gate(4);
  const int pool = 0;
  Peak launches;
  in_threads(8, [&](int) {
    for (int i = 0; i < 200; ++i) {
      const Pass pass(gate, {4, &pool, 2});
      launches.begin(1);
      if (i % 8 == 0) std::this_thread::sleep_for(microseconds(100));
      launches.end(1);
    }
  });
  EXPECT_LE(launches.value(), 2);
}

TEST(ThreadGate, NobodyStarves) {
  // One wants all of the budget while seven take small launches without a pause: this ends.
  ThreadGate gate(2);
  std::atomic<bool> done{false};
  std::atomic<int> begun{0};
  in_threads(8, [&](int t) {
    if (t > 0) {
      while (!done) {
        const Pass pass(gate, {1});
        ++begun;
      }
      return;
    }
    wait_until([&] { return begun > 20; });
    for (int i = 0; i < 20; ++i) const Pass pass(gate, {2});
    done = true;
  });
}

TEST(ThreadGate, ALongLaunchGivesWay) {
  ThreadGate gate(2);
  std::atomic<bool> is_over{false};
  std::atomic<int> turns{0};
  std::thread loop([&] {
    const Pass pass(gate, {.threads = 2});
    for (; !is_over; ++turns) ThreadGate::give_way();
  });
  wait_until([&] { return turns > 0; });
  for (int i = 0; i < 3; ++i) {
    const Pass pass(gate, {.threads = 2});
    const int seen = turns;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(turns, seen);  // it waits meanwhile
  }
  is_over = true;
  loop.join();
  ThreadGate::give_way();  // within no launch: nothing happens
  EXPECT_EQ(gate.waiting(), 0);
}

TEST(ThreadGate, WhoGaveWayMayBeInterrupted) {
  ThreadGate gate(1);
  std::atomic<bool> is_inside{false};
  std::thread loop([&] {
    const RunLimit limit(0.1);
    const WorkScope scope(&limit, "the run");
    const Pass pass(gate, {.threads = 1});
    is_inside = true;
    EXPECT_THROW(for (;;) ThreadGate::give_way(), Error);
  });
  wait_until([&] { return is_inside.load(); });
  {
    const Pass pass(gate, {.threads = 1});
    loop.join();
  }
  const Pass pass(gate, {.threads = 1});  // it took nothing along
  EXPECT_EQ(gate.waiting(), 0);
}

TEST(ThreadGate, WhatALaunchCallsPasses) {
  ThreadGate gate(1);
  const Pass outer(gate, {1});
  { const Pass inner(gate, {1}); }
  // A thread that works for the launch.
  const ThreadGate* launch = ThreadGate::current();
  in_threads(1, [&](int) {
    const ThreadGate::Inherited inherited(launch);
    const Pass inner(gate, {1});
  });
  EXPECT_EQ(ThreadGate::current(), &gate);
  // Each gate counts its own launches.
  ThreadGate other(1);
  const Pass pass(other, {1});
  EXPECT_EQ(ThreadGate::current(), &other);
}

TEST(ThreadGate, ALaunchThatThrowsGivesItsThreadsBack) {
  ThreadGate gate(2);
  const auto fail = [&] {
    const Pass pass(gate, {2});
    throw Error(ErrorCode::kEngine, "no");
  };
  EXPECT_THROW(fail(), Error);
  EXPECT_EQ(ThreadGate::current(), nullptr);
  const Pass pass(gate, {2});
}

TEST(ThreadGate, TheUserMayInterruptTheWait) {
  ThreadGate gate(1);
  Running other(gate, {1});
  set_interrupt_check([] { return true; });
  EXPECT_THROW(const Pass pass(gate, {1}), Error);
  set_interrupt_check(nullptr);
  EXPECT_EQ(gate.waiting(), 0);
  EXPECT_EQ(ThreadGate::current(), nullptr);
  other.end();
  const Pass pass(gate, {1});
}

TEST(ThreadGate, TheBudgetMayChange) {
  ThreadGate gate(1);
  Running first(gate, {1});
  Line line(gate);
  line.add("1", {1});
  line.add("2", {2});
  gate.set_budget(3);
  EXPECT_EQ(gate.budget(), 3);
  EXPECT_EQ(line.begun(), "12");  // beside the first
  // Less than what runs: the next begins when all of it has ended.
  Running second(gate, {2});
  gate.set_budget(1);
  line.add("a", {1});
  second.end();
  EXPECT_EQ(gate.waiting(), 1);
  first.end();
  EXPECT_EQ(line.begun(), "12a");
}

TEST(ThreadGate, AForkedProcessBeginsAnew) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
  const Running other(ThreadGate::process(), {thread_budget()});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // ends a child that waits for launches of its parent's
    { const Pass pass(ThreadGate::process(), {1}); }
    { const Pass pass(ThreadGate::process(), {thread_budget()}); }
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadGate, ALaunchMayFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
  pid_t child = -1;
  {
    const Pass pass(ThreadGate::process(), {thread_budget()});
    child = ::fork();
  }
  if (child == 0) {
    ::alarm(60);
    { const Pass pass(ThreadGate::process(), {thread_budget()}); }
    {
      Running running(ThreadGate::process(), {thread_budget()});
      Line line(ThreadGate::process());
      line.add("1", {1});  // waits: the launch that ended above was the parent's
      running.end();
    }
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadGate, TheProcessHasABudget) {
  const int before = thread_budget();
  set_thread_budget(3);
  EXPECT_EQ(thread_budget(), 3);
  EXPECT_EQ(granted_threads(0), 3);
  EXPECT_EQ(granted_threads(2), 2);
  EXPECT_EQ(granted_threads(8), 3);
  EXPECT_THROW(set_thread_budget(0), Error);
  set_thread_budget(before);
}

}  // namespace
}  // namespace xrt
