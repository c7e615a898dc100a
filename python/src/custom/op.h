// SPDX-License-Identifier: Apache-2.0
// Ops of users whose kernels and shape functions are written in Python (openxrt.register_op).
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

void bind_op(nanobind::module_& module);

}  // namespace xrt::python
