// SPDX-License-Identifier: Apache-2.0
// The threads of the native engine: a TBB arena bounded by the engine's share of the budget.
//
// Work that is one part runs inline in the calling thread and never touches TBB.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace xrt::native {

class Threads final {
 public:
  // Arenas are shared: there are budget / count of them for a count, and callers get them in turns.
  // The runtime counts launches of one arena as one (device/thread_gate.h), so that they stay
  // within the process's budget. What one executable calls must use the executable's own: two that
  // wait for each other's would never end.
  static std::shared_ptr<const Threads> get(int count);
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // An arena that one run has for itself, for runs side by side. There are as many as were needed
  // at once, which the runtime bounds.
  class Own {
   public:
    explicit Own(int count);
    ~Own();
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
    const Threads& threads() const { return *threads_; }

   private:
    std::unique_ptr<const Threads> threads_;
  };

  // Those in which this thread is in execute(), or null.
  static const Threads* inside();

  int count() const { return count_; }

  // fn(begin, end) over parts of [0, n), each but the last at least `grain` long.
  template <typename F>
  void parallel_for(std::int64_t n, std::int64_t grain, F&& fn) const {
    if (n <= 0) return;
    if (n <= grain) {
      fn(std::int64_t{0}, n);
      return;
    }
    using Function = std::remove_reference_t<F>;
    run_parts(
        n, std::max<std::int64_t>(grain, 1),
        [](void* f, std::int64_t begin, std::int64_t end) {
          (*static_cast<Function*>(f))(begin, end);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  // fn() inside the arena, so that libraries built on TBB use its threads.
  template <typename F>
  void execute(F&& fn) const {
    using Function = std::remove_reference_t<F>;
    run_inside([](void* f) { (*static_cast<Function*>(f))(); },
               const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  struct Arena;
  void run_parts(std::int64_t n, std::int64_t grain, void (*fn)(void*, std::int64_t, std::int64_t),
                 void* data) const;
  void run_inside(void (*fn)(void*), void* data) const;

  int count_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace xrt::native
