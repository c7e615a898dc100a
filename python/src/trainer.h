// SPDX-License-Identifier: Apache-2.0
// openxrt._core.Trainer over xrt::Trainer; what users see is in python/openxrt/trainer.py.
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

void bind_trainer(nanobind::module_& module);

}  // namespace xrt::python
