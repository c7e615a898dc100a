// SPDX-License-Identifier: Apache-2.0
#include "engines/native/threads.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "device/host_threads.h"
#include "device/thread_gate.h"
#include "device/threads.h"

namespace xrt::native {
namespace {

// A little more than TBB's threads stay awake without work (2021.13: 1 ms).
constexpr std::chrono::microseconds kAwake{1200};

// Then it goes back to TBB, which may have other work for it, or wait for its end.
constexpr std::chrono::milliseconds kLongestRest{100};

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// The threads of an arena, between two times that it has work. A thread that rests may outlive the
// arena's owner by an instant: each has its share of this.
struct Rest {
  std::atomic<int> round{0};  // counts the times that work began
  std::atomic<int> under_way{0};
  std::atomic<bool> asked{false};  // since work began
  std::atomic<std::int64_t> ended{0};
  std::mutex mutex;
  std::condition_variable over;

  void sleep_during(int this_round) {
    std::unique_lock lock(mutex);
    over.wait_for(lock, kLongestRest, [&] { return round.load() != this_round; });
  }
  void end_rest() {
    round.fetch_add(1);
    if (!asked.exchange(false)) return;
    { const std::lock_guard lock(mutex); }  // who has not seen it yet waits by now
    over.notify_all();
  }
};

// Sets a place while the object lives.
template <typename T>
class Inside {
 public:
  Inside(T& place, T value) : place_(place), outer_(std::exchange(place, value)) {}
  ~Inside() { place_ = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  T& place_;
  T outer_;
};

// Work in an arena, from when it begins until the object ends.
class Work {
 public:
  explicit Work(Rest& rest) : rest_(rest) {
    // In this order: who is to rest in the new round has seen that work is under way.
    rest_.under_way.fetch_add(1);
    rest_.end_rest();
  }
  ~Work() {
    rest_.ended.store(now_ns(), std::memory_order_relaxed);
    rest_.under_way.fetch_sub(1);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  Rest& rest_;
};

}  // namespace

struct Threads::Arena {
  explicit Arena(int count) : arena(count), lent(count, static_cast<unsigned>(count)) {}

  // Where the calling thread's loops run.
  tbb::task_arena& here() { return inside_lent == this ? lent : arena; }
  bool run_lent(int count, void (*fn)(void*), void* data);

  tbb::task_arena arena;
  std::shared_ptr<Rest> rest = std::make_shared<Rest>();

  // Of threads that the calling program lends. Each has a place of its own, and TBB's workers have
  // none: a thread that found no place would wait for another to do its part, which here is to wait
  // for the end of the run.
  struct Place {
    tbb::task_group group;
    tbb::task_handle open;  // while it exists, who waits for the group takes part in the arena
  };
  tbb::task_arena lent;
  std::mutex lending;  // held by the one run that uses `lent`
  std::deque<Place> places;

  static thread_local const Arena* inside_lent;
  // Whose work the thread is in that calls run_parts().
  static thread_local const Arena* inside_work;
};

thread_local const Threads::Arena* Threads::Arena::inside_lent = nullptr;
thread_local const Threads::Arena* Threads::Arena::inside_work = nullptr;

// fn in the arena of lent threads; false, and nothing done, where there are none to be had.
bool Threads::Arena::run_lent(int count, void (*fn)(void*), void* data) {
  const HostThreads* host = lent_threads();
  if (host == nullptr || host->count != count || inside_lent != nullptr) return false;
  const std::unique_lock lock(lending, std::try_to_lock);
  if (!lock) return false;
  while (places.size() + 1 < static_cast<std::size_t>(count)) places.emplace_back();
  for (Place& place : places) place.open = place.group.defer([] {});
  struct Run {
    Arena& arena;
    const HostThreads& host;
    void (*fn)(void*);
    void* data;
    std::exception_ptr error;
  } run{*this, *host, fn, data, nullptr};
  host->parallel(
      [](void* argument) {
        Run& run = *static_cast<Run*>(argument);
        Arena& arena = run.arena;
        const int number = run.host.thread_num();
        if (number > 0) {
          inside_lent = &arena;
          arena.lent.execute(
              [&] { arena.places[static_cast<std::size_t>(number) - 1].group.wait(); });
          inside_lent = nullptr;
          return;
        }
        try {
          // Inside of a parallel region of the program's own, for one, no other thread comes.
          const bool alone = run.host.num_threads() == 1;
          inside_lent = alone ? nullptr : &arena;
          (alone ? arena.arena : arena.lent).execute([&] { run.fn(run.data); });
        } catch (...) {  // must not leave the program's region: rethrown behind it
          run.error = std::current_exception();
        }
        inside_lent = nullptr;
        for (Place& place : arena.places) place.open = {};
      },
      &run, static_cast<unsigned>(count), 0);
  if (run.error) std::rethrow_exception(run.error);
  return true;
}

Threads::Threads(int count)
    : count_(std::max(count, 1)),
      may_rest_(count_ > 1 && 2 * count_ - 1 <= tbb::info::default_concurrency()),
      arena_(std::make_unique<Arena>(count_)) {}

Threads::~Threads() {
  if (may_rest_) ThreadGate::process().forget(this);
  arena_->rest->end_rest();
}

void Threads::rest() const {
  const std::shared_ptr<Rest>& rest = arena_->rest;
  const int round = rest->round.load();
  if (rest->under_way.load() > 0) return;
  const auto idle =
      std::chrono::nanoseconds(now_ns() - rest->ended.load(std::memory_order_relaxed));
  if (idle > kAwake || rest->asked.exchange(true)) return;
  // Work that begins meanwhile ends the round: nobody sleeps any more then.
  for (int i = 1; i < count_; ++i) {
    arena_->arena.enqueue([rest, round] { rest->sleep_during(round); });
  }
}

std::shared_ptr<const Threads> Threads::get(int count) {
  struct Shared {
    std::vector<std::weak_ptr<const Threads>> arenas;
    std::size_t next = 0;
  };
  static std::mutex mutex;
  static std::map<int, Shared> by_count;
  count = std::max(count, 1);
  const std::lock_guard lock(mutex);
  Shared& shared = by_count[count];
  shared.arenas.resize(static_cast<std::size_t>(std::max(thread_budget() / count, 1)));
  std::weak_ptr<const Threads>& place = shared.arenas[shared.next++ % shared.arenas.size()];
  std::shared_ptr<const Threads> threads = place.lock();
  if (!threads) {
    threads = std::make_shared<Threads>(count);
    place = threads;
  }
  return threads;
}

void Threads::run_parts(std::int64_t n, std::int64_t grain,
                        void (*fn)(void*, std::int64_t, std::int64_t), void* data) const {
  // A few parts per thread even out uneven work without many small tasks.
  const std::int64_t wanted = std::min<std::int64_t>((n + grain - 1) / grain, count_ * 4);
  const std::int64_t part = (n + wanted - 1) / wanted;
  const std::int64_t parts = (n + part - 1) / part;
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer sees nothing of what TBB's library, built without it, orders between threads,
  // and would call every part a race. Threads of our own it sees.
  std::atomic<std::int64_t> next{0};
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count_));
  const auto work = [&](std::size_t thread) {
    try {
      for (std::int64_t i = next++; i < parts; i = next++) {
        fn(data, i * part, std::min(n, (i + 1) * part));
      }
    } catch (...) {  // rethrown below
      errors[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < errors.size(); ++i) others.emplace_back(work, i);
    work(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
#else
  std::optional<Work> work;
  const Arena* const self = arena_.get();
  if (Arena::inside_work != self && Arena::inside_lent != self) work.emplace(*arena_->rest);
  arena_->here().execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, parts, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          fn(data, range.begin() * part, std::min(n, range.end() * part));
        },
        tbb::simple_partitioner());
  });
#endif
}

void Threads::run_inside(void (*fn)(void*), void* data) const {
#ifdef __SANITIZE_THREAD__
  fn(data);
#else
  if (count_ > 1 && arena_->run_lent(count_, fn, data)) return;
  // TBB may have one of its own threads do it, when all places of the arena are taken.
  const ThreadGate* launch = ThreadGate::current();
  const Work work(*arena_->rest);
  arena_->here().execute([&] {
    const ThreadGate::Inherited inherited(launch);
    const Inside<const Arena*> here(Arena::inside_work, arena_.get());
    fn(data);
  });
#endif
}

}  // namespace xrt::native
