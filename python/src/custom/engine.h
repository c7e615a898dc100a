// SPDX-License-Identifier: Apache-2.0
// Engines written in Python: openxrt.engine() registers one, the runtime sees an xrt::Engine.
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

void bind_engine(nanobind::module_& module);

}  // namespace xrt::python
