// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <concepts>
#include <limits>
#include <string>
#include <utility>

#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// The value is of another kind than the option, or out of its range.
struct WrongKind {};

std::string checked_text(nb::handle value) {
  if (!PyUnicode_Check(value.ptr())) throw WrongKind();
  return nb::cast<std::string>(value);
}

// Whether `value` is True or False, NumPy's included.
bool is_truth(nb::handle value) {
  const std::string shown = nb::cast<std::string>(nb::str(value));
  return !PyUnicode_Check(value.ptr()) && (shown == "True" || shown == "False");
}

// An engine's own option: in the spelling that engines document for switches.
std::string free_text(nb::handle value) {
  if (is_truth(value)) return PyObject_IsTrue(value.ptr()) == 1 ? "true" : "false";
  return nb::cast<std::string>(nb::str(value));
}

// --- One overload per type of field -------------------------------------------------------------

void convert(nb::handle value, bool& field) {
  if (!is_truth(value)) throw WrongKind();
  field = PyObject_IsTrue(value.ptr()) == 1;
}

template <std::integral T>
void convert(nb::handle value, T& field) {
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) {
    PyErr_Clear();
    throw WrongKind();
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  if (overflow != 0 || !std::in_range<T>(number)) throw WrongKind();
  field = static_cast<T>(number);
}

void convert(nb::handle value, double& field) {
  if (PyUnicode_Check(value.ptr())) throw WrongKind();
  const nb::object number = nb::steal(PyNumber_Float(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    throw WrongKind();
  }
  field = PyFloat_AsDouble(number.ptr());
}

void convert(nb::handle value, std::string& field) { field = checked_text(value); }

void convert(nb::handle value, std::filesystem::path& field) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) {
    PyErr_Clear();
    throw WrongKind();
  }
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) throw nb::python_error();
  const nb::object bytes = nb::steal(encoded);
  field = std::string(PyBytes_AsString(bytes.ptr()),
                      static_cast<std::size_t>(PyBytes_Size(bytes.ptr())));
}

void convert(nb::handle value, OptionalPath& field) { convert(value, field.emplace()); }

// set_option() takes its words.
void convert(nb::handle, PrecisionOrAuto&) { throw WrongKind(); }

void convert(nb::handle value, OptionNames& field) {
  if (!nb::isinstance<nb::sequence>(value) && !PyIter_Check(value.ptr())) throw WrongKind();
  field.clear();
  for (const nb::handle name : nb::iter(value)) field.push_back(checked_text(name));
}

// The entries of a mapping, or of an iterable of pairs.
nb::list entries_of(nb::handle value) {
  nb::object items = nb::borrow(value);
  if (PyMapping_Check(value.ptr()) != 0 && nb::hasattr(value, "items"))
    items = value.attr("items")();
  nb::list entries = nb::steal<nb::list>(PySequence_List(items.ptr()));
  if (!entries.is_valid()) {
    PyErr_Clear();
    throw WrongKind();
  }
  for (const nb::handle entry : entries) {
    if (!PySequence_Check(entry.ptr()) || nb::len(entry) != 2) throw WrongKind();
  }
  return entries;
}

void convert(nb::handle value, OptionPairs& field) {
  field.clear();
  for (const nb::handle entry : entries_of(value)) {
    field.emplace_back(checked_text(entry[0]), checked_text(entry[1]));
  }
}

// Sizes and names as a text: themselves, or their sequence; None is a size that is left as it is.
std::string sizes_text(nb::handle value, char separator) {
  if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  if (value.is_none()) return "?";
  if (!PySequence_Check(value.ptr())) {
    std::int64_t size = 0;
    if (PyBool_Check(value.ptr())) throw WrongKind();
    convert(value, size);
    return std::to_string(size);
  }
  std::string text;
  for (const nb::handle part : nb::iter(value)) {
    if (!PyUnicode_Check(part.ptr()) && PySequence_Check(part.ptr())) throw WrongKind();
    const std::string one = sizes_text(part, separator);
    // It would be two, or none.
    if (one.empty() || one.find(separator) != std::string::npos) throw WrongKind();
    text += (text.empty() ? "" : std::string(1, separator)) + one;
  }
  return text;
}

// Of options whose values are sizes: what separates them in a text. 0: of all others.
char separator_of(const OptionMap ProgramOptions::*field) {
  if (field == &ProgramOptions::shapes) return ',';
  return field == &ProgramOptions::ranges ? ':' : '\0';
}

void convert(nb::handle value, ProgramOptions& options, OptionMap ProgramOptions::*field) {
  const char separator = separator_of(field);
  OptionMap texts;
  for (const nb::handle entry : entries_of(value)) {
    texts[checked_text(entry[0])] =
        separator == '\0' ? checked_text(entry[1]) : sizes_text(entry[1], separator);
  }
  options.*field = std::move(texts);
}

// A text, a number of runs, or a path.
void convert(nb::handle value, ProgramOptions& options, std::string ProgramOptions::*field) {
  if (field != &ProgramOptions::int8_calibration || PyUnicode_Check(value.ptr())) {
    return convert(value, options.*field);
  }
  if (PyIndex_Check(value.ptr()) != 0 && !is_truth(value)) {
    std::size_t runs = 0;
    convert(value, runs);
    options.*field = std::to_string(runs);
    return;
  }
  if (!nb::hasattr(value, "__fspath__")) throw WrongKind();
  std::filesystem::path path;
  convert(value, path);
  options.*field = path.string();
}

void convert(nb::handle value, OptionsByEngine& field) {
  field.clear();
  for (const nb::handle entry : entries_of(value)) {
    OptionMap& own = field[checked_text(entry[0])];
    if (PyUnicode_Check(nb::object(entry[1]).ptr())) throw WrongKind();
    for (const nb::handle option : entries_of(entry[1])) {
      own[checked_text(option[0])] = free_text(option[1]);
    }
  }
}

template <typename T>
void convert(nb::handle value, ProgramOptions& options, T ProgramOptions::*field) {
  convert(value, options.*field);
}

void set(ProgramOptions& options, const std::string& name, nb::handle value) {
#define XRT_OPTION(type, field, value_by_default, ...) \
  if (name == #field) return convert(value, options, &ProgramOptions::field);
#include "xrt/options.inc"
  throw WrongKind();  // a retired option, which set_option() has dealt with
}

}  // namespace

void set_options(ProgramOptions& options, const nb::dict& values) {
  for (auto [key, value] : values) {
    const auto given = nb::cast<std::string>(key);
    const OptionInfo& option = find_option(given);
    if (!option.retired.empty()) {
      set_option(options, given, free_text(value));
      continue;
    }
    if (value.is_none() && (option.kind == OptionKind::kPath || option.kind == OptionKind::kMap)) {
      continue;
    }
    const bool in_text = option.kind == OptionKind::kList || option.kind == OptionKind::kWord;
    if (PyUnicode_Check(value.ptr()) && in_text) {
      set_option(options, given, checked_text(value));
      continue;
    }
    try {
      set(options, option.name, value);
      if (!option_fits(options, given)) throw WrongKind();
    } catch (const WrongKind&) {
      refuse_option_value(given, nb::cast<std::string>(nb::repr(value)));
    }
  }
}

}  // namespace xrt::python
