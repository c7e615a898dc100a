// SPDX-License-Identifier: Apache-2.0
// How far compilations are that take long (CompileOptions::progress): tuning, building for a GPU.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

// "tvm_0: tuning fused_conv2d (40 trials), 12 %"
using CompileObserver = std::function<void(const std::string& line)>;

// While it lives, the observer is told; else lines go to the log, as information. Any thread may
// call it, one at a time. Of several the one that was made last counts.
class XRT_API ObserveCompiling {
 public:
  explicit ObserveCompiling(CompileObserver observer);
  ~ObserveCompiling();
  ObserveCompiling(const ObserveCompiling&) = delete;
  ObserveCompiling& operator=(const ObserveCompiling&) = delete;
};

// What an engine is handed for this function.
std::function<void(std::string_view what, double part)> compile_progress(std::string function);

}  // namespace xrt
