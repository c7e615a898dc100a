// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, or the end of the time that is given, during work that takes long: whoever waits or
// repeats asks now and then whether to go on.
#pragma once

#include "xrt/export.h"

namespace xrt {

// Whether the user has asked to stop. Called on the process's first thread alone, which is where
// Python runs its signal handlers.
using InterruptCheck = bool (*)();

// What throw_if_interrupted() asks; none at first: a program without a check of its own is ended by
// the signal. The check lives as long as the process, or until another one is set. Returns the one
// before.
XRT_API InterruptCheck set_interrupt_check(InterruptCheck check);

// Whether the check says so: false on other threads than the first.
XRT_API bool is_interrupted();

// Throws Error(kEngine, "interrupted") where the check says so, and Error(kResource) where the time
// of the thread's WorkScope is over. It asks the check at most every 50 ms, so that loops may call
// it at every turn.
XRT_API void throw_if_interrupted();

// For the steps of a run, which may take less than a microsecond.
class StepInterrupts {
 public:
  // Asks nobody on other threads than the first, where there is no check, and where the work is not
  // to be given up half way (WorkScope::may_stop()).
  XRT_API StepInterrupts();
  // Throws where the check says so, which it asks at most every 250 ms: it may have to wait for
  // Python's other threads.
  void look() const {
    if (asks_) ask();
  }

 private:
  XRT_API static void ask();
  const bool asks_;
};

}  // namespace xrt
