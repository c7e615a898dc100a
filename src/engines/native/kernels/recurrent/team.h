// SPDX-License-Identifier: Apache-2.0
// Threads that do many short pieces of work together, one piece after the other.
//
// A parallel_for for each product of a recurrent cell would take longer than the product. Here the
// threads meet once: one leads, and the others look for its next round in a loop. Nobody is waited
// for who has not come: parts of a round that no helper has taken are the leader's. A part is the
// same helper's in each round, so its weights stay in that thread's cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace xrt::native {

class Team {
 public:
  // `members`: the parts of a round, and the most threads that are of use.
  explicit Team(int members);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The leader's time: when it ends, helpers go.
  class Lead {
   public:
    explicit Lead(Team& team) : team_(team) {}
    ~Lead() { team_.end(); }
    Lead(const Lead&) = delete;
    Lead& operator=(const Lead&) = delete;

   private:
    Team& team_;
  };

  int members() const { return members_; }

  // In the leader, which is member 0: fn(part) for each part of [0, members), some of them in
  // helpers. fn must not throw. Returns when all are done.
  template <typename F>
  void run(F&& fn) {
    using Function = std::remove_reference_t<F>;
    run_round([](void* f, int part) { (*static_cast<Function*>(f))(part); },
              const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  // In a helper: takes part until the leader's time is over.
  void help(int member);

 private:
  using Round = std::uint64_t;
  static constexpr Round kEnd = ~Round{0};

  // On a cache line of its own: a member writes it while others look at theirs.
  struct alignas(64) Part {
    std::atomic<Round> taken = 0;  // in which round last
    std::atomic<Round> done = 0;
  };

  void end();
  void run_round(void (*fn)(void*, int), void* data);
  // Whether the part of this round became the caller's.
  bool take(int part, Round round);

  int members_;
  std::unique_ptr<Part[]> parts_;
  // Written before round_, and not before all parts of the round before are done.
  void (*fn_)(void*, int) = nullptr;
  void* data_ = nullptr;
  alignas(64) std::atomic<Round> round_ = 0;
};

}  // namespace xrt::native
