// SPDX-License-Identifier: Apache-2.0
// Submitted runs of one program: they begin in the order of their submission, so many at once on
// threads of the program, and so many wait.
//
//   RequestQueue queue(2, 64, [&](auto inputs, auto& outputs, auto& options) { … });
//   const Request request = queue.add(inputs, outputs, {});
//
// A thread is started where a request comes and none is idle. Back-pressure: add() waits while the
// queue is full, but for the threads of the queue, whose callbacks may submit more. After a fork
// the child has a queue of its own; what the parent submitted is the parent's.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fork_mutex.h"
#include "xrt/program.h"
#include "xrt/request.h"

namespace xrt {

class RequestQueue {
 public:
  using Run = std::function<void(std::span<const Data> inputs, std::vector<Data>& outputs,
                                 const RunOptions& options)>;

  // `streams`: runs at once. `most`: requests that wait, 1 or more.
  RequestQueue(int streams, std::size_t most, Run run);
  // Carries out what is left and waits for it. On a thread of the queue, in a callback, it carries
  // out the rest there.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Throws kResource where no thread can be started, and where there is no room and the options say
  // not to wait; kEngine "interrupted".
  Request add(std::vector<Data> inputs, std::vector<Data> outputs, const RunOptions& options,
              std::function<void(const Request&)> done = {});

 private:
  friend class Request;
  class Pool;
  Pool& pool();

  const int streams_;
  const std::size_t most_;
  const Run run_;
  std::atomic<Pool*> now_{nullptr};
  ForkMutex mutex_;                           // of pools_
  std::vector<std::shared_ptr<Pool>> pools_;  // one per process that this object has been in
};

// The queue of `program`, which outlives it, with `max_queue` of the options.
std::unique_ptr<RequestQueue> queue_of(Program& program, int streams,
                                       const ProgramOptions& options);

}  // namespace xrt
