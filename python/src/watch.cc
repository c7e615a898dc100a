// SPDX-License-Identifier: Apache-2.0
// Notices that dictionaries of Python objects hold others than before, without a Python call per
// entry: a module has hundreds, and they are looked at before every run. And that memory holds
// other bytes than before, for frameworks that count no writes.
#include "watch.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "device/threads.h"
#include "gil.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

class Watch {
 public:
  using Entry = std::tuple<nb::dict, nb::object, nb::object>;

  // `places`: dictionary, key and the object it leads to; None also where there is none. `whole`:
  // dictionaries that must not grow or shrink. `versions`: whether the objects count their changes
  // in `_version`. `dtypes`: whether their `dtype` may become another (PyTorch's Module.to()
  // changes that of a tensor in place).
  Watch(std::vector<Entry> places, const std::vector<nb::dict>& whole, bool versions, bool dtypes)
      : places_(std::move(places)) {
    for (const nb::dict& dict : whole) sizes_.emplace_back(dict, PyDict_Size(dict.ptr()));
    for (const Entry& entry : places_) {
      if (versions) versions_.push_back(version(std::get<2>(entry)));
      if (dtypes) dtypes_.push_back(dtype(std::get<2>(entry)));
    }
  }

  bool unchanged() const {
    for (const auto& [dict, size] : sizes_) {
      if (PyDict_Size(dict.ptr()) != size) return false;
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto& [dict, key, object] = places_[i];
      PyObject* now = PyDict_GetItemWithError(dict.ptr(), key.ptr());
      if (now == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      if (now != object.ptr() && !(now == nullptr && object.is_none())) return false;
      if (!versions_.empty() && version(object) != versions_[i]) return false;
      if (!dtypes_.empty() && !dtype(object).is(dtypes_[i])) return false;
    }
    return true;
  }

  // What is watched may lead back to who watches it: Python's collector has to see through.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    const auto* watch = nb::inst_ptr<Watch>(self);
    for (const auto& [dict, key, object] : watch->places_) {
      Py_VISIT(dict.ptr());
      Py_VISIT(key.ptr());
      Py_VISIT(object.ptr());
    }
    for (const auto& [dict, size] : watch->sizes_) Py_VISIT(dict.ptr());
    for (const nb::object& dtype : watch->dtypes_) Py_VISIT(dtype.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    auto* watch = nb::inst_ptr<Watch>(self);
    // Taken out first: what is let go may come back here.
    const auto places = std::exchange(watch->places_, {});
    const auto sizes = std::exchange(watch->sizes_, {});
    const auto dtypes = std::exchange(watch->dtypes_, {});
    watch->versions_.clear();
    return 0;
  }

 private:
  // There is one object per dtype.
  static nb::object dtype(nb::handle tensor) {
    static PyObject* const kName = PyUnicode_InternFromString("dtype");
    PyObject* found = PyObject_GetAttr(tensor.ptr(), kName);
    if (found == nullptr) throw nb::python_error();
    return nb::steal(found);
  }
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
  std::vector<nb::object> dtypes_;
};

// What arrays held at one time, every byte of it.
class Contents {
 public:
  using Array = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;

  explicit Contents(const std::vector<Array>& arrays) {
    const ReleasedGil release;
    for (const Array& array : arrays) digests_.push_back(digest(array));
  }

  bool equal(const std::vector<Array>& arrays) const {
    if (arrays.size() != digests_.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} arrays are compared with {}", arrays.size(), digests_.size()));
    }
    const ReleasedGil release;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (!(digest(arrays[i]) == digests_[i])) return false;
    }
    return true;
  }

 private:
  static Digest digest(const Array& array) {
    return hash_large(array.data(), array.nbytes(), thread_budget());
  }

  std::vector<Digest> digests_;
};

}  // namespace

void bind_watch(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Watch::traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&Watch::clear)},
                                {0, nullptr}};
  nb::class_<Watch>(module, "Watch", nb::type_slots(slots),
                    "Notices that dictionaries lead to other objects than before.")
      .def(nb::init<std::vector<Watch::Entry>, const std::vector<nb::dict>&, bool, bool>(),
           nb::arg("places"), nb::arg("whole"), nb::arg("versions"), nb::arg("dtypes") = false)
      .def("unchanged", &Watch::unchanged,
           "Whether every key still leads to the same object, every dictionary of `whole` has as "
           "many entries as before, and (with `versions`) no object's `_version` has moved, (with "
           "`dtypes`) its dtype is the same.");
  nb::class_<Contents>(module, "Contents", "Digests of all bytes of some arrays (128 bits each).")
      .def(nb::init<const std::vector<Contents::Array>&>(), nb::arg("arrays"))
      .def("equal", &Contents::equal, nb::arg("arrays"),
           "Whether these arrays hold the same bytes as those that this was made of.");
}

}  // namespace xrt::python
