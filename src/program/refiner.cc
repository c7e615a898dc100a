// SPDX-License-Identifier: Apache-2.0
#include "program/refiner.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/memory.h"
#include "measure/workload.h"

namespace xrt {

Refiner& Refiner::process() {
  // Never destroyed: end() at exit has emptied it.
  static auto* const refiner = new Refiner;
  return *refiner;
}

void Refiner::add(Job job) {
  if (ended_ || (process_ != 0 && process_ != ::getpid())) return;
  const std::lock_guard lock(mutex_);
  // Of handlers that run at exit the last one comes first: what was made so far stays until then.
  if (!busy_ && jobs_.empty()) std::atexit([] { process().end(); });
  if (!started_) {
    try {
      std::thread([this] { work(); }).detach();
    } catch (const std::system_error& error) {
      log_info(std::string("nothing is measured: there is no thread for it: ") + error.what());
      return;
    }
    started_ = true;
    process_ = ::getpid();
  }
  jobs_.push_back(std::move(job));
  wake_.notify_all();
}

void Refiner::end() {
  ended_ = true;
  if (process_ != ::getpid()) return;
  std::deque<Job> dropped;
  std::unique_lock lock(mutex_);
  dropped.swap(jobs_);
  done_.wait(lock, [this] { return !busy_; });
}

void Refiner::work() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
    }
    job([this] { return ended_.load(); });
    job = nullptr;  // with what it holds
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      busy_ = false;
      is_last = jobs_.empty();
      done_.notify_all();
    }
    // Plans that were measured, and the one that they replace, are as large as the model.
    if (is_last && !ended_) release_free_memory();
  }
}

bool Refining::is_ripe() {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep first = 0;
  if (first_run_.compare_exchange_strong(first, now)) return false;
  return Clock::duration(now - first) >= kPatience;
}

void Refining::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  // A check may itself drop the last hold of a program: of an object in Python, say.
  if (checking_ == std::this_thread::get_id()) return;
  left_.wait(lock, [this] { return !checking_; });
}

bool Refining::enter_check() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  checking_ = std::this_thread::get_id();
  return true;
}

void Refining::leave_check() {
  const std::lock_guard lock(mutex_);
  checking_.reset();
  left_.notify_all();
}

std::optional<Decision> Refining::settled(double budget_s) const {
  const std::lock_guard lock(mutex_);
  return spent_s_ >= budget_s ? last_ : std::nullopt;
}

void Refining::warn_once(const std::string& warning) {
  {
    const std::lock_guard lock(mutex_);
    if (!warnings_.insert(warning).second) return;
  }
  log_warning(warning);
}

void Refining::book(double seconds, const Decision& outcome) {
  const std::lock_guard lock(mutex_);
  spent_s_ += seconds;
  last_ = outcome;
}

void Refining::keep_inputs(std::vector<Data> inputs) {
  constexpr std::size_t kMost = 2;
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  if (bytes_of(inputs) > kMostBytes) return;
  const std::lock_guard lock(mutex_);
  if (inputs_.size() >= kMost) inputs_.erase(inputs_.begin());
  inputs_.push_back(std::move(inputs));
}

std::vector<std::vector<Data>> Refining::kept_inputs() const {
  const std::lock_guard lock(mutex_);
  return inputs_;
}

}  // namespace xrt
