// SPDX-License-Identifier: Apache-2.0
// Threads that carry out the submitted runs of one program, in the order of their submission.
//
// A thread is started where a task comes and none is idle, up to thread_budget() of them: the CPU
// work of runs waits for that budget anyway (xrt/threads.h), so that more could only wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace xrt::capi {

class RequestPool {
 public:
  RequestPool() = default;
  // Carries out what is left and waits for it; not on a thread of the pool.
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // `task` must not throw. Throws Error(kResource) where the first thread cannot be started.
  void add(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace xrt::capi
