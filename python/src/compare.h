// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

// Finding where two engines differ.
void bind_compare(nanobind::module_& module);

}  // namespace xrt::python
