// SPDX-License-Identifier: Apache-2.0
// Types of graph values for Python: openxrt.Type.
#pragma once

#include <nanobind/nanobind.h>

#include "xrt/type.h"

namespace xrt::python {

// "float32"; None for what has no element type (sequences, optionals).
nanobind::object dtype_object(const Type& type);
// A tuple with an int, a str (symbol) or None (unknown) per dimension; None where the rank is
// unknown or the value is no tensor.
nanobind::object shape_object(const Type& type);
// A dimension as shape_object() gives it. Throws kInvalidArgument for a negative number.
Dim dim_of(nanobind::handle item);
// The dimensions of an iterable of such.
Shape shape_of(nanobind::handle dims);

void bind_type(nanobind::module_& module);

}  // namespace xrt::python
