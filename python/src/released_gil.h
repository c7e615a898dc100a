// SPDX-License-Identifier: Apache-2.0
// The interpreter's lock, released for work that may be under way when the interpreter ends.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace xrt::python {

// As nb::gil_scoped_release, but that a thread which would take the lock back once end() was called
// sleeps until the process is gone. Python would end it (pthread_exit) in the middle of C++, and
// that ends the process with a signal. Only daemon threads come to that: others are joined first.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    ++returning();
    if (ending() && std::this_thread::get_id() != ender()) {
      --returning();
      for (;;) ::pause();
    }
    PyEval_RestoreThread(state_);
    --returning();
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

  // When the interpreter is about to end; without the lock, which those that were about to take it
  // still get.
  static void end() {
    ender() = std::this_thread::get_id();
    ending() = true;
    while (returning() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  static std::atomic<bool>& ending() {
    static std::atomic<bool> flag{false};
    return flag;
  }
  static std::atomic<int>& returning() {
    static std::atomic<int> count{0};
    return count;
  }
  static std::thread::id& ender() {
    static std::thread::id id;
    return id;
  }

  PyThreadState* state_;
};

}  // namespace xrt::python
