// SPDX-License-Identifier: Apache-2.0
#include "capi/request_pool.h"

#include <string>
#include <system_error>
#include <utility>

#include "xrt/error.h"
#include "xrt/threads.h"

namespace xrt::capi {

RequestPool::~RequestPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RequestPool::add(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    const bool is_full = threads_.size() >= static_cast<std::size_t>(thread_budget());
    if (tasks_.size() > idle_ && !is_full) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error& error) {
        // With fewer threads the task waits longer; without any it would wait for ever.
        if (threads_.empty()) {
          tasks_.pop_back();
          throw Error(ErrorCode::kResource,
                      std::string("a thread for a run cannot be started: ") + error.what());
        }
      }
    }
  }
  wake_.notify_one();
}

void RequestPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes before the thread waits again
    lock.lock();
  }
}

}  // namespace xrt::capi
