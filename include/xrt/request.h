// SPDX-License-Identifier: Apache-2.0
// A run that was submitted: a handle, which may be copied and may outlive its program.
//
//   xrt::Request request = program->submit({x});
//   request.on_done([](const xrt::Request& done) { … });  // on a thread of the program
//   std::vector<xrt::Data> outputs = request.get();
//
// Thread-safety: all functions may be called at once. A child that fork() made has no threads that
// would carry out a run of its parent: there, who waits for one gets kEngine.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

class XRT_API Request {
 public:
  class State;

  Request() = default;  // of no run: nothing may be asked but valid()
  explicit Request(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  // Whether the run takes place now.
  bool running() const;
  // Whether it has ended, by success, an error or cancel().
  bool done() const;
  // Returns when it has; throws kEngine "interrupted".
  void wait() const;
  // As wait(), for as long at most; whether it has ended.
  bool wait_for(std::chrono::nanoseconds limit) const;
  // Waits for the outputs, in the program's order. Throws what the run threw; kInvalidArgument
  // where it was cancelled.
  std::vector<Data> get() const;

  // Takes the request back where its run has not begun: whether it was, now or before. A run that
  // has begun goes on.
  bool cancel() const;
  bool cancelled() const;

  // Calls `callback` when the run has ended: on the thread that ran it, that called cancel(), or at
  // once where it has ended already. It must not throw and should return soon. It may submit, and
  // it may let the program go.
  void on_done(std::function<void(const Request&)> callback) const;

  // How long the run took; 0 before its end and where it was cancelled.
  std::chrono::nanoseconds run_time() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace xrt
