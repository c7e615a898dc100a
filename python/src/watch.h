// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

// Registers _core.Watch, which openxrt.torch and openxrt.oneflow ask before every call of a module,
// and _core.Contents.
void bind_watch(nanobind::module_& module);

}  // namespace xrt::python
