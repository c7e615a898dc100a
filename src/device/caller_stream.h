// SPDX-License-Identifier: Apache-2.0
// The CUDA stream that the calling program works on, for what one of its threads runs.
//
// A framework queues the work that writes a program's inputs on a stream and goes on. Who runs a
// program says which stream that is instead of waiting for it:
//
//   CallerStream stream(0, handle);
//   program->run(inputs, outputs);
//
// Where the program can be queued behind that work, it is, and what the framework queues on the
// stream afterwards finds its outputs written. Where it cannot, it waits.
#pragma once

#include "xrt/export.h"

namespace xrt {

class XRT_API CallerStream {
 public:
  // `stream` is CUDA's handle on that device; 0 is the legacy default stream. Throws
  // kInvalidArgument while it is being captured.
  CallerStream(int device, void* stream);
  ~CallerStream();
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  // Of the current thread; null where there is none, or it has been waited for.
  static CallerStream* current();

  int device() const { return device_; }
  // Never null: the legacy default stream by its own handle, 1.
  void* handle() const { return handle_; }
  // Returns when what is queued is done; from then on there is nothing to follow.
  void wait();

 private:
  int device_;
  void* handle_;
  bool waited_ = false;
  CallerStream* outer_;
};

}  // namespace xrt
