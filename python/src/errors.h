// SPDX-License-Identifier: Apache-2.0
// The exception classes of openxrt: one base, `openxrt.Error`, and one class per xrt::ErrorCode.
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

// Creates the classes in `module` and has every xrt::Error raised as the class of its code.
void bind_errors(nanobind::module_& module);

}  // namespace xrt::python
