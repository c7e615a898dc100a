// SPDX-License-Identifier: Apache-2.0
// What bounds the work that a thread does: a time, and the memory of the tensors that it makes.
//
//   const RunLimit limit(2.5);
//   const WorkScope scope(&limit, "the run");
//   …  throw_if_interrupted();                      // throws kResource after 2.5 s
//
//   const auto account = std::make_shared<MemoryAccount>();
//   const WorkScope scope(account, most_bytes);
//   …  Tensor::allocate(dtype, dims);               // throws kResource instead of going beyond
//
// Scopes nest: the nearest time counts, and the accounts of all scopes around are added up. A
// tensor stays on the account that it was made on until its memory is freed or handed over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/run_limit.h"
#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

// A string of so many bytes lies in the tensor itself.
inline constexpr std::size_t kCharactersInPlace = 15;
// Of a longer one on the heap: its end, and the heap's header and rounding.
inline constexpr std::size_t kBesideCharacters = 24;

struct MemoryAccount {
  // Of the tensors that are alive.
  std::atomic<std::int64_t> bytes{0};
  // Of the strings that are being written: on `bytes` when settle_characters() has seen the tensor.
  std::atomic<std::int64_t> characters{0};
};

// Of this thread, while it lives.
class XRT_API WorkScope {
 public:
  // `what` is what takes too long: "the run". Both outlive the scope.
  WorkScope(const RunLimit* limit, std::string_view what);
  // `most`: of the accounts of this scope and those around together. `may_stop`: nobody sees
  // anything of work that is given up half way, see may_stop().
  WorkScope(std::shared_ptr<MemoryAccount> account, std::size_t most, bool may_stop = false);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

  // Null where nothing bounds this thread.
  static const WorkScope* current();
  // The nearest time, or null.
  static const RunLimit* time_limit();
  // Throws Error(kResource) where that time is over.
  static void check_time();

  // Whether the work of this thread may be given up between two steps where the user asks to stop:
  // all scopes around with accounts say so. What changes weights or caches in place may not.
  static bool may_stop();

  // The account to put `bytes` on, for a value that is described to people; null: nothing bounds
  // it. Throws Error(kResource), with both figures, where there is no room for them.
  static std::shared_ptr<MemoryAccount> charge(std::size_t bytes, DType dtype, const Dims& dims);
  static std::shared_ptr<MemoryAccount> charge(std::size_t bytes,
                                               const std::function<std::string()>& what);
  // Puts nothing on an account.
  static void check_room(std::size_t bytes, const std::function<std::string()>& what);
  // Before a string of so many bytes is written to a tensor: throws Error(kResource) where there is
  // no room for it.
  static void charge_characters(std::size_t bytes);
  // What was charged so is settled.
  static void forget_characters();
  // The account of the scope around the nearest one that has an account.
  static std::shared_ptr<MemoryAccount> outer_account();

 private:
  static const WorkScope* nearest_with_account();
  static void throw_without_room(const WorkScope* nearest, std::size_t bytes,
                                 const std::function<std::string()>& what);
  friend class InheritedScope;
  const WorkScope* const outer_;
  const RunLimit* const limit_;  // the nearest
  const std::string_view what_;
  const std::shared_ptr<MemoryAccount> account_;
  const std::size_t most_ = 0;
  const bool may_stop_ = false;
};

// For a loop whose turns may be many or long: looks at the clock once per so much work.
class TimeCheck {
 public:
  // `operations` of a few nanoseconds each were done since. Where their number is negative, of
  // sizes that make no sense, it looks at the clock as well.
  void spend(std::int64_t operations) {
    if (operations >= 0 && operations < kOften - spent_) {
      spent_ += operations;
      return;
    }
    spent_ = 0;
    WorkScope::check_time();
  }

 private:
  static constexpr std::int64_t kOften = 1 << 20;
  std::int64_t spent_ = 0;
};

// For a thread that does part of another's work: that one's bounds.
class XRT_API InheritedScope {
 public:
  explicit InheritedScope(const WorkScope* scope);
  ~InheritedScope();
  InheritedScope(const InheritedScope&) = delete;
  InheritedScope& operator=(const InheritedScope&) = delete;

 private:
  const WorkScope* const own_;
};

// Puts tensors that are on the account `from` onto `to`, or onto none: they leave the run.
XRT_API void hand_over(const Data& data, const MemoryAccount* from,
                       const std::shared_ptr<MemoryAccount>& to);

// Puts the characters of a tensor of strings on its account, once. Of strings that stand.
XRT_API void settle_characters(const Data& data);

// `max_memory_bytes` of a run; 0: most of what the machine, or the process's control group, has.
XRT_API std::size_t memory_bound(std::size_t max_memory_bytes);

}  // namespace xrt
