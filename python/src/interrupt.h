// SPDX-License-Identifier: Apache-2.0
// Signals that come while C++ works for long (base/interrupt.h).
#pragma once

namespace xrt::python {

// From now on throw_if_interrupted() runs Python's signal handlers.
void check_interrupts();

// Raises in Python what a signal handler raised meanwhile; false where none did. With the GIL.
bool raise_interrupt();

}  // namespace xrt::python
