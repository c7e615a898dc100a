// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <array>
#include <exception>
#include <string>

#include "base/message.h"
#include "interrupt.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

struct ErrorClass {
  ErrorCode code;
  const char* name;
  PyObject* second_base;  // a built-in that scripts may already catch, or null
  const char* doc;
};

// Borrowed from the module, which lives as long as the interpreter.
struct ErrorClasses {
  PyObject* base = nullptr;
  std::array<PyObject*, 8> by_code{};
};

ErrorClasses& error_classes() {
  static ErrorClasses classes;
  return classes;
}

PyObject* add_class(nb::module_& module, const char* name, nb::handle bases, const char* doc) {
  const std::string qualified = std::string("openxrt.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::steal(type);
  return type;
}

void translate(const std::exception_ptr& pointer, void* /*payload*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    // Ctrl-C, which ended what an engine written in Python was doing, comes out as what it is.
    if (raise_interrupt() || PyErr_CheckSignals() != 0) return;
    const ErrorClasses& classes = error_classes();
    const auto index = static_cast<std::size_t>(error.code());
    PyObject* type = index < classes.by_code.size() ? classes.by_code[index] : classes.base;
    // Names taken from a damaged model need not be UTF-8.
    const std::string text = told(error.what());
    nb::object message = nb::steal(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    if (message.is_valid()) PyErr_SetObject(type, message.ptr());
  } catch (const nb::cast_error&) {
    // Of an object that the caller made: nothing of ours is cast to what it is not.
    const auto index = static_cast<std::size_t>(ErrorCode::kInvalidArgument);
    PyErr_SetString(error_classes().by_code[index],
                    "a Python object is of another type than is wanted in its place, or text that "
                    "is no UTF-8");
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  ErrorClasses& classes = error_classes();
  classes.base = add_class(module, "Error", nb::handle(PyExc_RuntimeError),
                           "Base of every error that OpenXRT raises. The message names the place "
                           "(file, node, op, value), what was found and what to do.");
  classes.base = module.attr("Error").ptr();
  const std::array<ErrorClass, 8> table = {{
      {ErrorCode::kInvalidArgument, "InvalidArgument", PyExc_ValueError,
       "Something passed by the caller is wrong: a name, dtype, shape or option."},
      {ErrorCode::kInvalidModel, "InvalidModel", nullptr,
       "A model, cache entry or text is malformed or breaks a rule."},
      {ErrorCode::kUnsupported, "Unsupported", nullptr,
       "Well-formed, but no permitted engine can do it."},
      {ErrorCode::kNotFound, "NotFound", nullptr, "A file, engine or entry is missing."},
      {ErrorCode::kEngine, "EngineError", nullptr,
       "An engine's library failed to load, to compile or to run."},
      {ErrorCode::kIo, "IoError", nullptr,
       "The operating system refused to read, write, map or lock."},
      {ErrorCode::kResource, "ResourceError", nullptr, "Out of memory, or a bound was reached."},
      {ErrorCode::kInternal, "InternalError", nullptr,
       "A rule of OpenXRT's own was broken: please report it."},
  }};
  for (const ErrorClass& row : table) {
    nb::object bases = row.second_base != nullptr
                           ? nb::make_tuple(nb::handle(classes.base), nb::handle(row.second_base))
                           : nb::make_tuple(nb::handle(classes.base));
    add_class(module, row.name, bases, row.doc);
    classes.by_code[static_cast<std::size_t>(row.code)] = module.attr(row.name).ptr();
  }
  nb::register_exception_translator(translate, nullptr);
  check_interrupts();
}

std::optional<ErrorCode> code_of(nb::handle exception) {
  const ErrorClasses& classes = error_classes();
  for (std::size_t i = 0; i < classes.by_code.size(); ++i) {
    if (nb::isinstance(exception, classes.by_code[i])) return static_cast<ErrorCode>(i);
  }
  return std::nullopt;
}

}  // namespace xrt::python
