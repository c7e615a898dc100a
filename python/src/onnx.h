// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

// ONNX models in and out, without running them.
void bind_onnx(nanobind::module_& module);

}  // namespace xrt::python
