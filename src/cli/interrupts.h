// SPDX-License-Identifier: Apache-2.0
// Ctrl-C in a command that ends in an orderly way: while the object lives the signal is noted, and
// what asks throw_if_interrupted() ends; a second one ends the process as usual.
//
//   const Interrupts interrupts;
//   while (work()) if (interrupts.came()) …
#pragma once

#include <csignal>

#include "base/interrupt.h"

namespace xrt::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool came() const;

 private:
  struct sigaction before_ {};
  InterruptCheck check_before_;
};

}  // namespace xrt::cli
