// SPDX-License-Identifier: Apache-2.0
#include "engines/native/threads.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "base/work_scope.h"
#include "device/thread_gate.h"
#include "device/threads.h"

namespace xrt::native {
namespace {

thread_local const Threads* inside_of = nullptr;

class Inside {
 public:
  explicit Inside(const Threads* threads) : outer_(std::exchange(inside_of, threads)) {}
  ~Inside() { inside_of = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const Threads* outer_;
};

// Arenas of Threads::Own that no run has now, by their count.
struct FreeThreads {
  ForkMutex mutex;
  std::map<int, std::vector<std::unique_ptr<const Threads>>> by_count;

  static FreeThreads& all() {
    static FreeThreads* const made = new FreeThreads;  // runs may end as the process does
    return *made;
  }
};

// A child that fork() made after TBB had threads has none of them, and TBB's locks as they were
// then: one that a thread of the parent held stays taken. The child works in its calling threads.
class Forked {
 public:
  static bool is_child() { return is_child_; }

  // Has one place, and was made before the fork: to run in it asks for no lock of TBB's.
  static tbb::task_arena& arena() {
    static auto* const one = [] {
      auto* made = new tbb::task_arena(1);
      made->initialize();
      ::pthread_atfork(nullptr, nullptr, [] { is_child_ = true; });
      return made;
    }();
    return *one;
  }

 private:
  inline static std::atomic<bool> is_child_ = false;
};

}  // namespace

struct Threads::Arena {
  explicit Arena(int count) : arena(count) { Forked::arena(); }

  tbb::task_arena arena;
};

Threads::Threads(int count) : count_(std::max(count, 1)), arena_(std::make_unique<Arena>(count_)) {}

Threads::~Threads() {
  if (Forked::is_child()) static_cast<void>(arena_.release());  // its end would ask for TBB's locks
}

std::shared_ptr<const Threads> Threads::get(int count) {
  struct Shared {
    std::vector<std::weak_ptr<const Threads>> arenas;
    std::size_t next = 0;
  };
  static ForkMutex mutex;
  static std::map<int, Shared> by_count;
  count = std::max(count, 1);
  const int budget = thread_budget();  // takes the lock of the gate, which fork() may have
  const std::lock_guard lock(mutex);
  Shared& shared = by_count[count];
  shared.arenas.resize(static_cast<std::size_t>(std::max(budget / count, 1)));
  std::weak_ptr<const Threads>& place = shared.arenas[shared.next++ % shared.arenas.size()];
  std::shared_ptr<const Threads> threads = place.lock();
  if (!threads) {
    threads = std::make_shared<Threads>(count);
    place = threads;
  }
  return threads;
}

Threads::Own::Own(int count) {
  FreeThreads& free = FreeThreads::all();
  {
    const std::lock_guard lock(free.mutex);
    auto& there = free.by_count[count];
    if (!there.empty()) {
      threads_ = std::move(there.back());
      there.pop_back();
    }
  }
  if (threads_ == nullptr) threads_ = std::make_unique<const Threads>(count);
}

Threads::Own::~Own() {
  FreeThreads& free = FreeThreads::all();
  const std::lock_guard lock(free.mutex);
  free.by_count[threads_->count()].push_back(std::move(threads_));
}

const Threads* Threads::inside() { return inside_of; }

void Threads::run_parts(std::int64_t n, std::int64_t grain,
                        void (*fn)(void*, std::int64_t, std::int64_t), void* data) const {
  // A few parts per thread even out uneven work without many small tasks. Where time is bounded,
  // there are more of them to look at the clock between.
  const WorkScope* scope = WorkScope::current();
  const bool is_bounded = WorkScope::time_limit() != nullptr;
  const bool is_alone = count_ == 1 || Forked::is_child();
  if (is_alone && !is_bounded) return fn(data, 0, n);
  const std::int64_t most = is_bounded ? count_ * 64 : count_ * 4;
  const std::int64_t wanted = std::min<std::int64_t>((n + grain - 1) / grain, most);
  const std::int64_t part = (n + wanted - 1) / wanted;
  const std::int64_t parts = (n + part - 1) / part;
  if (is_alone) {
    for (std::int64_t i = 0; i < parts; ++i) {
      WorkScope::check_time();
      fn(data, i * part, std::min(n, (i + 1) * part));
    }
    return;
  }
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer sees nothing of what TBB's library, built without it, orders between threads,
  // and would call every part a race. Threads of our own it sees.
  std::atomic<std::int64_t> next{0};
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count_));
  const auto work = [&](std::size_t thread) {
    const InheritedScope inherited(scope);
    try {
      for (std::int64_t i = next++; i < parts; i = next++) {
        WorkScope::check_time();
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
  arena_->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, parts, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          const InheritedScope inherited(scope);
          WorkScope::check_time();
          fn(data, range.begin() * part, std::min(n, range.end() * part));
        },
        tbb::simple_partitioner());
  });
#endif
}

void Threads::run_inside(void (*fn)(void*), void* data) const {
#ifdef __SANITIZE_THREAD__
  const Inside inside(this);
  fn(data);
#else
  // TBB may have one of its own threads do it, when all places of the arena are taken.
  const ThreadGate* launch = ThreadGate::current();
  const WorkScope* scope = WorkScope::current();
  tbb::task_arena& arena = Forked::is_child() ? Forked::arena() : arena_->arena;
  arena.execute([&] {
    const ThreadGate::Inherited inherited(launch);
    const InheritedScope bounds(scope);
    const Inside inside(this);
    fn(data);
  });
#endif
}

}  // namespace xrt::native
