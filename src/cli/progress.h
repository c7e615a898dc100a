// SPDX-License-Identifier: Apache-2.0
// Says on standard error what is going on once it takes longer than two seconds: one line that is
// rewritten on a terminal, a line now and then elsewhere. What engines tell of long compilations
// (tuning) stands behind it.
//
//   Progress progress("compiling model.onnx");
//   … work …
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "plan/compile_progress.h"

namespace xrt::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Names the step that is now under way; any thread may call it.
  void step(std::string what);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_, detail_;
  bool done_ = false;
  ObserveCompiling observe_;
  std::thread watcher_;
};

}  // namespace xrt::cli
