// SPDX-License-Identifier: Apache-2.0
// The gate of the thread budget: what runs at once is counted by the launches themselves.
#include "device/thread_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "device/threads.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
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

TEST(ThreadGate, WhatRunsAtOnceStaysWithinTheBudget) {
  ThreadGate gate(4);
  Peak threads;
  in_threads(8, [&](int t) {
    const int wanted = 1 + t % 4;
    for (int i = 0; i < 40; ++i) {
      const ThreadGate::Pass pass(gate, {wanted, nullptr});
      threads.begin(wanted);
      std::this_thread::sleep_for(microseconds(200));
      threads.end(wanted);
    }
  });
  EXPECT_LE(threads.value(), 4);
  EXPECT_GE(threads.value(), 3) << "nothing ran at once";
}

TEST(ThreadGate, MoreThanTheBudgetRunsAlone) {
  ThreadGate gate(2);
  Peak launches;
  in_threads(4, [&](int) {
    for (int i = 0; i < 20; ++i) {
      const ThreadGate::Pass pass(gate, {16, nullptr});
      launches.begin(1);
      std::this_thread::sleep_for(microseconds(100));
      launches.end(1);
    }
  });
  EXPECT_EQ(launches.value(), 1);
}

TEST(ThreadGate, LaunchesOfOnePoolCountOnce) {
  ThreadGate gate(2);
  int pools[2];
  Peak launches, used[2];
  in_threads(8, [&](int t) {
    const int p = t % 2;
    for (int i = 0; i < 40; ++i) {
      const ThreadGate::Pass pass(gate, {2, &pools[p]});
      launches.begin(1);
      used[p].begin(1);
      std::this_thread::sleep_for(microseconds(200));
      used[p].end(1);
      launches.end(1);
    }
  });
  // Two of one pool at once, never two of different ones, nor more than the pool has threads.
  EXPECT_EQ(launches.value(), 2);
  EXPECT_EQ(used[0].value(), 2);
  EXPECT_EQ(used[1].value(), 2);
}

TEST(ThreadGate, APoolMayTakeFewerLaunchesThanItHasThreads) {
  ThreadGate gate(4);
  const int pool = 0;
  Peak launches;
  in_threads(8, [&](int) {
    for (int i = 0; i < 40; ++i) {
      const ThreadGate::Pass pass(gate, {4, &pool, nullptr, 2});
      launches.begin(1);
      std::this_thread::sleep_for(microseconds(200));
      launches.end(1);
    }
  });
  EXPECT_EQ(launches.value(), 2);
}

struct Lingerers final : LingeringThreads {
  void rest() const override { ++told; }
  mutable std::atomic<int> told{0};
};

TEST(ThreadGate, ThreadsThatLingerRestWhenOthersNeedTheBudget) {
  ThreadGate gate(4);
  const Lingerers a, b;
  const LaunchUse use_a{3, &a, &a}, use_b{2, &b, &b}, one{1, nullptr};
  const auto run = [&](const LaunchUse& use) { const ThreadGate::Pass pass(gate, use); };
  run(use_a);
  run(use_a);
  run(one);  // beside two that linger
  EXPECT_EQ(a.told, 0);
  run(use_b);  // two beside two
  EXPECT_EQ(a.told, 0);
  run({2, nullptr});  // beside two and one
  EXPECT_EQ(a.told, 1);
  EXPECT_EQ(b.told, 1);
  run({4, nullptr});  // nobody lingers any more
  EXPECT_EQ(a.told + b.told, 2);
  run(use_a);
  run({4, nullptr});
  EXPECT_EQ(a.told, 2);
  run(use_b);
  gate.forget(&b);
  run({4, nullptr});
  EXPECT_EQ(b.told, 1);
  {
    // Launches that are counted, because they are not alone.
    run(use_a);
    const ThreadGate::Pass outer(gate, one);
    in_threads(1, [&](int) { run(one); });
    EXPECT_EQ(a.told, 2);
    in_threads(1, [&](int) { run({2, nullptr}); });
    EXPECT_EQ(a.told, 3);
  }
}

TEST(ThreadGate, NobodyStarves) {
  // One wants all of the budget while seven take small launches without a pause.
  ThreadGate gate(2);
  std::atomic<bool> done{false};
  std::atomic<int> begun{0};
  double worst = 0;
  in_threads(8, [&](int t) {
    if (t > 0) {
      while (!done) {
        const ThreadGate::Pass pass(gate, {1, nullptr});
        ++begun;
        std::this_thread::sleep_for(microseconds(300));
      }
      return;
    }
    while (begun < 20) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) {
      const auto start = Clock::now();
      { const ThreadGate::Pass pass(gate, {2, nullptr}); }
      worst = std::max(worst, seconds_since(start));
    }
    done = true;
  });
  EXPECT_LT(worst, 0.5);
}

TEST(ThreadGate, WhatALaunchCallsPasses) {
  ThreadGate gate(1);
  const auto start = Clock::now();
  const ThreadGate::Pass outer(gate, {1, nullptr});
  { const ThreadGate::Pass inner(gate, {1, nullptr}); }
  // A thread that works for the launch.
  const ThreadGate* launch = ThreadGate::current();
  std::thread([&] {
    const ThreadGate::Inherited inherited(launch);
    const ThreadGate::Pass inner(gate, {1, nullptr});
  }).join();
  EXPECT_LT(seconds_since(start), 0.5);
  EXPECT_EQ(ThreadGate::current(), &gate);
}

TEST(ThreadGate, LaunchesThatWaitForEachOtherEnd) {
  ThreadGate gate(1);
  const ThreadGate::Pass outer(gate, {1, nullptr});
  const auto start = Clock::now();
  // The gate cannot know that the outer launch waits for this one.
  std::thread([&] { const ThreadGate::Pass inner(gate, {1, nullptr}); }).join();
  EXPECT_LT(seconds_since(start), 10);
}

TEST(ThreadGate, ALongLaunchIsNotTakenForADeadlock) {
  ThreadGate gate(1);
  Peak launches;
  in_threads(2, [&](int) {
    const ThreadGate::Pass pass(gate, {1, nullptr});
    launches.begin(1);
    const auto start = Clock::now();
    while (seconds_since(start) < 1.6) {  // computes
    }
    launches.end(1);
  });
  EXPECT_EQ(launches.value(), 1);
}

TEST(ThreadGate, TheBudgetMayChange) {
  ThreadGate gate(1);
  std::atomic<int> inside{0};
  std::atomic<bool> done{false};
  std::thread changes([&] {
    while (inside < 1) std::this_thread::yield();
    gate.set_budget(3);
    while (inside < 3) std::this_thread::yield();
    done = true;
  });
  in_threads(3, [&](int) {
    const ThreadGate::Pass pass(gate, {1, nullptr});
    ++inside;
    while (!done) std::this_thread::sleep_for(microseconds(100));
  });
  changes.join();
  EXPECT_EQ(gate.budget(), 3);
}

TEST(ThreadGate, WaitingIsTold) {
  ThreadGate gate(1);
  std::atomic<bool> taken{false};
  std::thread other([&] {
    const ThreadGate::Pass pass(gate, {1, nullptr});
    taken = true;
    std::this_thread::sleep_for(milliseconds(20));
  });
  while (!taken) std::this_thread::yield();
  const auto before = ThreadGate::waited();
  { const ThreadGate::Pass pass(gate, {1, nullptr}); }
  EXPECT_GT(ThreadGate::waited() - before, milliseconds(5));
  const auto after = ThreadGate::waited();
  { const ThreadGate::Pass pass(gate, {1, nullptr}); }
  EXPECT_EQ(ThreadGate::waited(), after);
  other.join();
}

TEST(ThreadGate, AForkedProcessBeginsAnew) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
  std::atomic<bool> taken{false}, done{false};
  std::thread other([&] {
    const ThreadGate::Pass pass(ThreadGate::process(), {thread_budget(), nullptr});
    taken = true;
    while (!done) std::this_thread::sleep_for(microseconds(100));
  });
  while (!taken) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto start = Clock::now();
    { const ThreadGate::Pass pass(ThreadGate::process(), {1, nullptr}); }
    { const ThreadGate::Pass pass(ThreadGate::process(), {1, nullptr}); }
    ::_exit(seconds_since(start) < 0.5 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  done = true;
  other.join();
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
