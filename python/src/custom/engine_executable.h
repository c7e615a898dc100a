// SPDX-License-Identifier: Apache-2.0
// What an engine written in Python compiled, as an xrt::Executable.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "gil.h"
#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt::python {

// Throws the Python exception of an engine as an xrt::Error: with the exception's own code and
// message where it is one of ours, else as kEngine, and the message carries the traceback.
[[noreturn]] void throw_engine_error(const std::string& engine, const std::string& what,
                                     nanobind::python_error& error);

// The same for other code than an engine's: `place` begins the message.
[[noreturn]] void throw_python_error(const std::string& place, nanobind::python_error& error);

// The object's str() or repr() as UTF-8, whatever it is: code points that are no characters are
// escaped, and an object that raises when it is printed is named by its type. Needs the GIL.
std::string text_of(nanobind::handle object);
std::string repr_of(nanobind::handle object);

// A Python object that C++ owns. The interpreter may be gone before the last owner is.
class Held {
 public:
  explicit Held(nanobind::object object) : object_(object.release().ptr()) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();
  nanobind::handle get() const { return object_; }

 private:
  PyObject* object_;
};

// `object` is what compile() or load() returned: a callable of arrays, or an object with a method
// run(inputs, outputs). Throws kEngine where it is neither. `method` made it. A run
// takes `num_threads` unless the object has an attribute of that name. Needs the GIL.
std::shared_ptr<const Executable> make_executable(
    const std::string& engine, const std::string& method, const std::string& function,
    std::vector<Port> outputs, nanobind::object object, bool can_load, int num_threads);

}  // namespace xrt::python
