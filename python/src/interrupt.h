// SPDX-License-Identifier: Apache-2.0
// Signals that come while C++ works for long (base/interrupt.h).
#pragma once

namespace xrt::python {

// From now on throw_if_interrupted() runs Python's signal handlers.
void check_interrupts();

// Python that C++ calls in the midst of its work: what a signal's handler raised is not raised
// there, where an engine or a weak reference's callback would swallow it, but where the work was
// begun.
class WithinWork {
 public:
  WithinWork();
  ~WithinWork();  // with the GIL
  WithinWork(const WithinWork&) = delete;
  WithinWork& operator=(const WithinWork&) = delete;
};

// Raises in Python what a signal handler raised meanwhile; false where none did. With the GIL.
bool raise_interrupt();

}  // namespace xrt::python
