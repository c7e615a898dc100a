// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupts.h"

namespace xrt::cli {
namespace {

volatile std::sig_atomic_t signal_came = 0;

void note_signal(int) { signal_came = 1; }

}  // namespace

Interrupts::Interrupts() : check_before_(set_interrupt_check([] { return signal_came != 0; })) {
  signal_came = 0;
  struct sigaction noted {};
  noted.sa_handler = note_signal;
  noted.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &noted, &before_);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &before_, nullptr);
  set_interrupt_check(check_before_);
}

bool Interrupts::came() const { return signal_came != 0; }

}  // namespace xrt::cli
