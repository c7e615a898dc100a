// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <nanobind/nanobind.h>

#include "base/interrupt.h"
#include "custom/engine_executable.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// What the handler raised (KeyboardInterrupt, an alarm's timeout), until it can be raised where
// Python goes on. Guarded by the GIL.
PyObject *raised_type = nullptr, *raised_value = nullptr, *raised_traceback = nullptr;

thread_local int work_depth = 0;  // of WithinWork; of interest on Python's first thread
bool scheduled = false;           // raise_later() is going to be called

// Python calls this soon, also where the work succeeded some other way.
int raise_later(void* /*unused*/) {
  scheduled = false;
  return work_depth == 0 && raise_interrupt() ? -1 : 0;
}

void schedule() {
  if (raised_type == nullptr || scheduled) return;
  scheduled = Py_AddPendingCall(raise_later, nullptr) == 0;
}

bool is_interrupted() {
  if (Py_IsInitialized() == 0) return false;  // the signal's own action is back
  const Gil gil;
  if (raised_type != nullptr) return true;
  if (PyErr_CheckSignals() == 0) return false;
  PyErr_Fetch(&raised_type, &raised_value, &raised_traceback);
  return true;  // ~Gil() has it raised
}

}  // namespace

void check_interrupts() { set_interrupt_check(is_interrupted); }

WithinWork::WithinWork() { ++work_depth; }

WithinWork::~WithinWork() {
  if (--work_depth == 0) schedule();
}

bool raise_interrupt() {
  if (raised_type == nullptr) return false;
  PyErr_Restore(raised_type, raised_value, raised_traceback);
  raised_type = raised_value = raised_traceback = nullptr;
  return true;
}

}  // namespace xrt::python
