// SPDX-License-Identifier: Apache-2.0
#include "device/thread_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/at_fork.h"
#include "base/interrupt.h"
#include "base/work_scope.h"
#include "device/threads.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// A launch that waits asks this often whether the user has interrupted it.
constexpr std::chrono::milliseconds kInterruptInterval{50};

// How long a launch keeps its threads where others wait and it can let go of them.
constexpr std::chrono::milliseconds kLongestHold{20};

thread_local const ThreadGate* inside = nullptr;
thread_local ThreadGate::Pass* holder = nullptr;  // of this thread's launch

}  // namespace

const ThreadGate* ThreadGate::current() { return inside; }

ThreadGate& ThreadGate::process() {
  // Never destroyed: a program may live until the process ends.
  static ThreadGate* const gate = [] {
    auto* made = new ThreadGate(default_thread_budget());
    // A child that fork() makes has one thread: the launches of the others never end there.
    at_fork({.before = [] { process().mutex_.lock(); },
             .in_parent = [] { process().mutex_.unlock(); },
             .in_child =
                 [] {
                   ThreadGate& gate = process();
                   gate.used_ = 0;
                   gate.pools_.clear();
                   gate.line_.clear();
                   ++gate.processes_;
                   gate.mutex_.unlock();
                 }});
    return made;
  }();
  return *gate;
}

int ThreadGate::budget() const {
  const std::lock_guard lock(mutex_);
  return budget_;
}

void ThreadGate::set_budget(int budget) {
  const std::lock_guard lock(mutex_);
  budget_ = budget;
  serve();
}

int ThreadGate::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(line_.size());
}

std::vector<ThreadGate::Pool>::iterator ThreadGate::find_pool(const void* address) {
  if (address == nullptr) return pools_.end();
  return std::find_if(pools_.begin(), pools_.end(),
                      [&](const Pool& pool) { return pool.address == address; });
}

bool ThreadGate::fits(const ThreadUse& use) {
  const auto pool = find_pool(use.pool);
  if (pool != pools_.end()) {
    return pool->runs < (use.runs_at_once > 0 ? use.runs_at_once : use.threads);
  }
  return used_ == 0 || used_ + use.threads <= budget_;
}

ThreadGate::Share ThreadGate::begin(const ThreadUse& use, std::string_view engine) {
  if (engine != engine_) {
    engine_ = engine;
    turn_ends_ = Clock::now() + turn_;
  }
  const auto pool = find_pool(use.pool);
  if (pool != pools_.end()) {
    ++pool->runs;
    return {use.pool, 0, processes_};
  }
  used_ += use.threads;
  if (use.pool != nullptr) pools_.push_back({use.pool, 1, use.threads});
  return {use.pool, use.threads, processes_};
}

ThreadGate::Waiter* ThreadGate::first_in_line() const {
  if (line_.empty()) return nullptr;
  if (Clock::now() < turn_ends_) {
    const auto same = std::find_if(line_.begin(), line_.end(),
                                   [&](const Waiter* each) { return each->engine == engine_; });
    if (same != line_.end()) return *same;
  }
  return line_.front();
}

void ThreadGate::remove(const Waiter* waiter) { std::erase(line_, waiter); }

void ThreadGate::serve() {
  while (Waiter* first = first_in_line()) {
    if (!fits(first->use)) return;
    if (!first->insists) {
      if (!std::exchange(first->called, true)) first->woken.notify_one();
      return;
    }
    first->share = begin(first->use, first->engine);
    first->begun = true;
    remove(first);
    // Under the lock, because the thread that wakes up destroys its condition variable.
    first->woken.notify_one();
  }
}

ThreadGate::Share ThreadGate::enter(const ThreadUse& use, std::string_view engine) {
  std::unique_lock lock(mutex_);
  const Waiter* first = first_in_line();
  const bool may_overtake =
      first != nullptr && first->called && !first->insists && engine == engine_;
  if ((first == nullptr || may_overtake) && fits(use)) return begin(use, engine);
  Waiter mine(use, engine);
  line_.push_back(&mine);
  wait(mine, lock);
  return mine.share;
}

void ThreadGate::wait(Waiter& mine, std::unique_lock<std::mutex>& lock) {
  while (!mine.begun) {
    const bool is_first = first_in_line() == &mine;
    if (is_first && fits(mine.use)) {
      remove(&mine);
      mine.share = begin(mine.use, mine.engine);
      serve();  // there may be room for the next in line too
      return;
    }
    mine.insists = mine.insists || (is_first && mine.called);
    if (std::exchange(mine.called, false)) serve();  // the call may be for another now
    if (mine.woken.wait_for(lock, kInterruptInterval) == std::cv_status::no_timeout) continue;
    lock.unlock();
    const bool stop = is_interrupted();
    const RunLimit* limit = WorkScope::time_limit();
    const bool is_late = limit != nullptr && limit->is_over();
    lock.lock();
    if ((!stop && !is_late) || mine.begun) continue;
    remove(&mine);
    serve();
    if (is_late) {
      throw Error(ErrorCode::kResource,
                  fmt::format("the run takes longer than its limit of {:g} s: it waited for "
                              "threads, which other runs had",
                              limit->seconds()));
    }
    throw Error(ErrorCode::kEngine, "interrupted");
  }
}

void ThreadGate::leave(const Share& share) {
  const std::lock_guard lock(mutex_);
  if (share.process != processes_) return;
  if (share.pool == nullptr) {
    used_ -= share.threads;
  } else if (const auto pool = find_pool(share.pool); --pool->runs == 0) {
    used_ -= pool->threads;
    pools_.erase(pool);
  }
  serve();
}

ThreadGate::Pass::Pass(ThreadGate& gate, const ThreadUse& use, std::string_view engine)
    : gate_(inside == &gate || use.threads <= 0 ? nullptr : &gate), use_(use), engine_(engine) {
  if (gate_ == nullptr) return;
  begin();
  outer_ = std::exchange(inside, gate_);
  outer_holder_ = std::exchange(holder, this);
}

void ThreadGate::Pass::begin() {
  share_ = gate_->enter(use_, engine_);
  is_held_ = true;
  since_ = Clock::now();
}

ThreadGate::Pass::~Pass() {
  if (gate_ == nullptr) return;
  holder = outer_holder_;
  inside = outer_;
  if (is_held_) gate_->leave(share_);
}

void ThreadGate::give_way() {
  if (holder == nullptr || Clock::now() - holder->since_ < kLongestHold) return;
  Pass& pass = *holder;
  if (pass.gate_->waiting() == 0) {
    pass.since_ = Clock::now();
    return;
  }
  pass.is_held_ = false;
  pass.gate_->leave(pass.share_);
  pass.begin();
}

ThreadGate::Inherited::Inherited(const ThreadGate* launch) : outer_(inside) { inside = launch; }
ThreadGate::Inherited::~Inherited() { inside = outer_; }

}  // namespace xrt
