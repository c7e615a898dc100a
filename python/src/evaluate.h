// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

void bind_evaluate(nanobind::module_& module);

}  // namespace xrt::python
