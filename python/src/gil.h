// SPDX-License-Identifier: Apache-2.0
// The interpreter's lock, for threads that may outlive the interpreter. Python ends a thread that
// asks for the lock once the interpreter ends (pthread_exit), in the midst of C++ or of another
// library's code, which ends the process with a signal. So threads are counted while they are in
// Python, or on their way there, from C++; the interpreter's end waits for those, and lets no other
// one in.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include "interrupt.h"

namespace xrt::python {

// Whether the interpreter is there and not about to end.
bool is_up();

// Before the interpreter ends, without the lock: from now on no thread but this one enters Python
// from C++ or comes back to it. Waits for those that are there: a run or a compilation of an engine
// in Python. Only daemon threads come to that: others are joined first. Ends after ten seconds all
// the same.
void end_entries();

// A thread's stay in Python, which C++ calls. It has none (false) once the interpreter ends, unless
// it was in Python before.
class Entry {
 public:
  Entry();
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

// The lock, for code that cannot go on without Python: throws kEngine where the interpreter ends.
class Gil {
 public:
  Gil() : gil_(checked(entry_)) {}

 private:
  struct Checked {};
  struct Acquire : nanobind::gil_scoped_acquire {
    explicit Acquire(Checked /*entered*/) {}
  };
  static Checked checked(const Entry& entry);
  Entry entry_;
  Acquire gil_;
  WithinWork within_;
};

// Does the work with the lock, or not at all where the interpreter ends: what it would free goes
// with the process.
template <typename Work>
void with_gil_if_up(Work&& work) {
  const Entry entry;
  if (!entry) return;
  const nanobind::gil_scoped_acquire gil;
  const WithinWork within;  // a finalizer may run
  work();
}

// As nb::gil_scoped_release, but that a thread which would take the lock back once the interpreter
// ends sleeps until the process is gone, unless C++ was called by Python that C++ had called.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace xrt::python
