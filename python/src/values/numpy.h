// SPDX-License-Identifier: Apache-2.0
// NumPy's types, looked up once: element types in both directions, and the functions the
// conversions call. NumPy's C API is not used, so that one build serves every NumPy.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <optional>

#include "xrt/dtype.h"

namespace xrt::python {

class NumPy {
 public:
  // The one instance; imports NumPy at the first call. Needs the GIL.
  static NumPy& get();

  // The NumPy dtype of `dtype` (ml_dtypes for what NumPy lacks, object for strings).
  // Raises ImportError, saying what to install, where ml_dtypes is missing.
  nanobind::handle dtype(DType dtype);
  // Nothing for a dtype that no tensor has (structured, datetime, object, text) or of foreign
  // byte order.
  std::optional<DType> parse(nanobind::handle numpy_dtype);

  bool is_array(nanobind::handle object) const {
    return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(ndarray.ptr())) != 0;
  }

  nanobind::object ndarray, asarray, array_equal, ascontiguousarray, object_dtype, uint8, uint16;

 private:
  NumPy();
  void load_ml_dtypes();

  std::array<nanobind::object, kDTypeCount> dtypes_;
  nanobind::dict by_dtype_;
  bool tried_ml_dtypes_ = false;
};

}  // namespace xrt::python
