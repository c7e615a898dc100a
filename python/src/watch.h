// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

// Registers _core.Watch, which openxrt.torch uses before every call of a module.
void bind_watch(nanobind::module_& module);

}  // namespace xrt::python
