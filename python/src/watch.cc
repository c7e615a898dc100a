// SPDX-License-Identifier: Apache-2.0
// Notices that dictionaries of Python objects hold others than before, without a Python call per
// entry: a module of PyTorch has hundreds, and they are looked at before every run.
#include "watch.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace xrt::python {
namespace {

class Watch {
 public:
  using Entry = std::tuple<nb::dict, nb::object, nb::object>;

  // `places`: dictionary, key and the object it leads to. `whole`: dictionaries that must not grow
  // or shrink. `versions`: whether the objects count their changes in `_version`.
  Watch(std::vector<Entry> places, const std::vector<nb::dict>& whole, bool versions)
      : places_(std::move(places)) {
    for (const nb::dict& dict : whole) sizes_.emplace_back(dict, PyDict_Size(dict.ptr()));
    if (!versions) return;
    for (const Entry& entry : places_) versions_.push_back(version(std::get<2>(entry)));
  }

  bool unchanged() const {
    for (const auto& [dict, size] : sizes_) {
      if (PyDict_Size(dict.ptr()) != size) return false;
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto& [dict, key, object] = places_[i];
      PyObject* now = PyDict_GetItemWithError(dict.ptr(), key.ptr());
      if (now == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      if (now != object.ptr()) return false;
      if (!versions_.empty() && version(object) != versions_[i]) return false;
    }
    return true;
  }

 private:
  static long version(nb::handle tensor) {
    static PyObject* const kName = PyUnicode_InternFromString("_version");
    PyObject* number = PyObject_GetAttr(tensor.ptr(), kName);
    if (number == nullptr) throw nb::python_error();
    const long value = PyLong_AsLong(number);
    Py_DECREF(number);
    return value;
  }

  std::vector<Entry> places_;
  std::vector<std::pair<nb::dict, Py_ssize_t>> sizes_;
  std::vector<long> versions_;
};

}  // namespace

void bind_watch(nb::module_& module) {
  nb::class_<Watch>(module, "Watch", "Notices that dictionaries lead to other objects than before.")
      .def(nb::init<std::vector<Watch::Entry>, const std::vector<nb::dict>&, bool>(),
           nb::arg("places"), nb::arg("whole"), nb::arg("versions"))
      .def("unchanged", &Watch::unchanged,
           "Whether every key still leads to the same object, every dictionary of `whole` has as "
           "many entries as before, and (with `versions`) no object's `_version` has moved.");
}

}  // namespace xrt::python
