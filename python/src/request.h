// SPDX-License-Identifier: Apache-2.0
// What openxrt.request.Request is built on.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <vector>

#include "xrt/request.h"

namespace xrt::python {

// A Python openxrt.request.Request for the run that `submit` hands over, without the GIL. `outputs`
// makes the Python result of what the run computed, with the GIL, or throws; what it holds is
// dropped with the GIL. Throws what `submit` throws, and kEngine where the interpreter is about to
// end.
nanobind::object make_request(const std::function<Request()>& submit,
                              std::function<nanobind::object(std::vector<Data>)> outputs);

void bind_request(nanobind::module_& module);

}  // namespace xrt::python
