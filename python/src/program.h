// SPDX-License-Identifier: Apache-2.0
// openxrt.Program, Port and LaunchEvent over xrt::Program.
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

void bind_program(nanobind::module_& module);

}  // namespace xrt::python
