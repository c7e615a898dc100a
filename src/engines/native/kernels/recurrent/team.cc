// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/recurrent/team.h"

#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xrt::native {
namespace {

// Looks that a thread takes, some microseconds, before it lets others have its processor. The one
// that it waits for may be among them.
constexpr int kLooksInARow = 256;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Until `is_there()`.
template <typename F>
void wait(F&& is_there) {
  for (int looks = 1; !is_there(); ++looks) {
    if (looks % kLooksInARow == 0) {
      std::this_thread::yield();
    } else {
      relax();
    }
  }
}

}  // namespace

Team::Team(int members)
    : members_(members), parts_(std::make_unique<Part[]>(static_cast<std::size_t>(members))) {}

bool Team::take(int part, Round round) {
  Round before = round - 1;
  return parts_[part].taken.compare_exchange_strong(before, round, std::memory_order_acq_rel);
}

void Team::run_round(void (*fn)(void*, int), void* data) {
  fn_ = fn;
  data_ = data;
  const Round round = round_.load(std::memory_order_relaxed) + 1;
  round_.store(round, std::memory_order_release);
  for (int part = 0; part < members_; ++part) {
    if (!take(part, round)) continue;
    fn(data, part);
    parts_[part].done.store(round, std::memory_order_relaxed);
  }
  for (int part = 1; part < members_; ++part) {
    wait([&] { return parts_[part].done.load(std::memory_order_acquire) == round; });
  }
}

void Team::help(int member) {
  Round seen = 0;
  while (true) {
    Round round = seen;
    wait([&] { return (round = round_.load(std::memory_order_acquire)) != seen; });
    if (round == kEnd) return;
    seen = round;
    // A helper that comes late finds its part taken.
    if (!take(member, round)) continue;
    fn_(data_, member);
    parts_[member].done.store(round, std::memory_order_release);
  }
}

void Team::end() { round_.store(kEnd, std::memory_order_release); }

}  // namespace xrt::native
