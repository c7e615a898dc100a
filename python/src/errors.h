// SPDX-License-Identifier: Apache-2.0
// The exception classes of openxrt: one base, `openxrt.Error`, and one class per xrt::ErrorCode.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "xrt/error.h"

namespace xrt::python {

// Creates the classes in `module` and has every xrt::Error raised as the class of its code.
void bind_errors(nanobind::module_& module);

// The code of the class that a Python exception is an instance of; none for exceptions of others.
std::optional<ErrorCode> code_of(nanobind::handle exception);

}  // namespace xrt::python
