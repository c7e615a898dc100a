// SPDX-License-Identifier: Apache-2.0
#include "device/thread_gate.h"

#include <algorithm>
#include <ctime>
#include <new>

namespace xrt {
namespace {

using std::chrono::nanoseconds;

// Who has waited this long is served before those that come later.
constexpr std::chrono::milliseconds kPatience{1};
// Without any end of a launch for this long it is asked whether launches wait for each other.
constexpr std::chrono::seconds kStandstill{1};
// The process computes if it used this share of one processor meanwhile.
constexpr double kComputing = 0.05;

thread_local const ThreadGate* inside = nullptr;
thread_local nanoseconds waited_here{0};

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

const ThreadGate* ThreadGate::current() { return inside; }
nanoseconds ThreadGate::waited() { return waited_here; }

int ThreadGate::budget() const { return budget_; }

// The address of the pool above 16 bits of the number of threads, shifted by one: never kCounted.
std::uint64_t ThreadGate::mark_of(const LaunchUse& use) {
  constexpr int kAddressBits = 47, kMostThreads = 0x7fff;
  const auto pool = reinterpret_cast<std::uintptr_t>(use.pool);
  if (pool >> kAddressBits != 0 || use.threads > kMostThreads) return kIdle;
  return std::uint64_t{pool} << 16 | static_cast<std::uint64_t>(use.threads) << 1;
}

LaunchUse ThreadGate::use_of(std::uint64_t mark) {
  LaunchUse use;
  use.threads = static_cast<int>((mark & 0xffff) >> 1);
  use.pool = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(mark >> 16));
  return use;
}

void ThreadGate::count_the_lone_one() {
  const std::uint64_t mark = state_.exchange(kCounted, std::memory_order_acq_rel);
  if (mark != kIdle && mark != kCounted) lone_taken_ = try_take(use_of(mark));
}

void ThreadGate::forget_others() {
  if (inside == this) return;
  // The lock, too, may have been held by a thread that is not there: nothing can be taken apart.
  new (this) ThreadGate(budget_);
}

void ThreadGate::set_budget(int budget) {
  const auto held = lock();
  budget_ = budget;
  serve();
}

// What is done under the lock takes nanoseconds: a thread that finds it taken looks again before it
// goes to sleep.
std::unique_lock<std::mutex> ThreadGate::lock() const {
  constexpr int kLooks = 64;
  std::unique_lock held(mutex_, std::try_to_lock);
  for (int i = 0; i < kLooks && !held.owns_lock(); ++i) held.try_lock();
  if (!held.owns_lock()) held.lock();
  return held;
}

int ThreadGate::try_take(const LaunchUse& use, bool by_force) {
  const auto pool = use.pool == nullptr
                        ? pools_.end()
                        : std::find_if(pools_.begin(), pools_.end(),
                                       [&](const Pool& p) { return p.pool == use.pool; });
  if (pool != pools_.end()) {
    const int most = use.launches > 0 ? use.launches : use.threads;
    if (pool->launches >= most && !by_force) return -1;
    ++pool->launches;
    ++running_;
    return 0;  // the last one to leave gives back what the first one took
  }
  const int budget = budget_;
  const int wanted = std::clamp(use.threads, 1, budget);
  if (used_ + wanted > budget && used_ > 0 && !by_force) return -1;
  used_ += wanted;
  ++running_;
  if (use.pool != nullptr) pools_.push_back({use.pool, 1, wanted});
  return wanted;
}

void ThreadGate::leave(const LaunchUse& use, int taken) {
  ++ended_;
  if (use.pool == nullptr) {
    used_ -= taken;
  } else {
    const auto pool = std::find_if(pools_.begin(), pools_.end(),
                                   [&](const Pool& p) { return p.pool == use.pool; });
    if (--pool->launches == 0) {
      used_ -= pool->taken;
      pools_.erase(pool);
    }
  }
  --running_;
  if (!waiting_.empty()) {
    serve();
  } else if (running_ == 0) {
    state_.store(kIdle, std::memory_order_release);
  }
}

void ThreadGate::serve() {
  while (!waiting_.empty()) {
    Waiter& first = *waiting_.front();
    if (Clock::now() - first.since < kPatience) {
      // It tries when it is awake; until then there is room for others.
      if (!first.called) {
        first.called = true;
        first.woken.notify_one();
      }
      return;
    }
    first.taken = try_take(*first.use);
    if (first.taken < 0) return;
    first.admitted = true;
    waiting_.pop_front();
    // Under the lock, because the one that is woken destroys its condition variable.
    first.woken.notify_one();
  }
}

int ThreadGate::wait(const LaunchUse& use, std::unique_lock<std::mutex>& lock) {
  Waiter mine{&use, Clock::now(), {}};
  waiting_.push_back(&mine);
  std::uint64_t seen = ended_;
  double used = processor_seconds();
  while (!mine.admitted) {
    const bool moved =
        mine.woken.wait_for(lock, kStandstill, [&] { return mine.admitted || mine.called; });
    if (mine.admitted) break;
    mine.called = false;
    const bool first = waiting_.front() == &mine;
    bool by_force = false;
    if (!moved) {
      const double now = processor_seconds();
      by_force = first && ended_ == seen && now - used < kComputing * kStandstill.count();
      seen = ended_;
      used = now;
    }
    if (!first) continue;
    mine.taken = try_take(use, by_force);
    if (mine.taken < 0) continue;
    mine.admitted = true;
    waiting_.pop_front();
  }
  waited_here += Clock::now() - mine.since;
  return mine.taken;
}

void ThreadGate::update_lingering() {
  const void* who = nullptr;
  if (!lingering_.empty())
    who = lingering_.size() == 1 ? lingering_.front().threads : static_cast<const void*>(this);
  who_lingers_.store(who, std::memory_order_release);
}

void ThreadGate::note_lingering(const LaunchUse& use) {
  if (use.lingering == nullptr || use.threads <= 1) return;
  if (who_lingers_.load(std::memory_order_acquire) == use.lingering) return;
  const std::lock_guard held(lingering_mutex_);
  const bool known = std::any_of(lingering_.begin(), lingering_.end(), [&](const Lingering& each) {
    return each.threads == use.lingering;
  });
  if (!known) lingering_.push_back({use.lingering, use.threads - 1});
  update_lingering();
}

void ThreadGate::let_others_rest(const LaunchUse& use, int computing) {
  const void* who = who_lingers_.load(std::memory_order_acquire);
  if (who == nullptr || who == use.lingering) return;
  const std::lock_guard held(lingering_mutex_);
  int others = 0;
  for (const Lingering& each : lingering_) {
    if (each.threads != use.lingering) others += each.others;
  }
  if (computing + others <= budget_) return;
  // Whoever has a launch under way does not rest, and is noted again when that has ended.
  std::erase_if(lingering_, [&](const Lingering& each) {
    if (each.threads == use.lingering) return false;
    each.threads->rest();
    return true;
  });
  update_lingering();
}

void ThreadGate::forget(const LingeringThreads* threads) {
  const std::lock_guard held(lingering_mutex_);
  std::erase_if(lingering_, [&](const Lingering& each) { return each.threads == threads; });
  update_lingering();
}

ThreadGate::Pass::Pass(ThreadGate& gate, const LaunchUse& use)
    : gate_(gate), outer_(inside), use_(use) {
  if (outer_ == &gate_ || use_.threads <= 0) return;
  inside = &gate_;
  mark_ = mark_of(use_);
  std::uint64_t idle = kIdle;
  if (mark_ != kIdle &&
      gate_.state_.compare_exchange_strong(idle, mark_, std::memory_order_acq_rel)) {
    gate_.let_others_rest(use_, use_.threads);
    return;
  }
  mark_ = kIdle;
  auto held = gate_.lock();
  gate_.count_the_lone_one();
  const bool behind =
      !gate_.waiting_.empty() && Clock::now() - gate_.waiting_.front()->since >= kPatience;
  taken_ = behind ? -1 : gate_.try_take(use_);
  if (taken_ < 0) {
    taken_ = gate_.wait(use_, held);
    // What is left may do for the next in line.
    if (!gate_.waiting_.empty()) gate_.serve();
  }
  const int computing = gate_.used_;
  held.unlock();
  gate_.let_others_rest(use_, computing);
}

ThreadGate::Pass::~Pass() {
  if (outer_ == &gate_ || use_.threads <= 0) return;
  inside = outer_;
  gate_.note_lingering(use_);
  std::uint64_t mark = mark_;
  if (mark != kIdle &&
      gate_.state_.compare_exchange_strong(mark, kIdle, std::memory_order_acq_rel)) {
    return;
  }
  const auto held = gate_.lock();
  gate_.leave(use_, mark_ != kIdle ? gate_.lone_taken_ : taken_);
}

LingeringThreads::~LingeringThreads() = default;
TellsThreadUse::~TellsThreadUse() = default;
TellsPoolUse::~TellsPoolUse() = default;
int TellsPoolUse::runs_at_once() const { return 0; }
const LingeringThreads* TellsPoolUse::lingering() const { return nullptr; }

ThreadGate::Inherited::Inherited(const ThreadGate* launch) : outer_(inside) { inside = launch; }
ThreadGate::Inherited::~Inherited() { inside = outer_; }

}  // namespace xrt
