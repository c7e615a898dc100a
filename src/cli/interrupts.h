// SPDX-License-Identifier: Apache-2.0
// Ctrl-C in a command that ends in an orderly way: while the object lives the signal is noted and
// nothing else happens; a second one ends the process as usual.
//
//   const Interrupts interrupts;
//   while (work()) if (interrupts.came()) …
#pragma once

#include <csignal>

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
};

}  // namespace xrt::cli
