// SPDX-License-Identifier: Apache-2.0
// Tensors in a device's memory as Python sees them: DeviceArray, which lends it through DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include "xrt/tensor.h"

namespace xrt::python {

// `tensor` lies on a device and is written.
nanobind::object device_array(const Tensor& tensor);

// What was lent on is given back: its memory is used again once all is done that is queued on the
// stream now. The GIL need not be held.
void give_back(const Tensor& tensor, void* stream) noexcept;

void bind_device_array(nanobind::module_& module);

}  // namespace xrt::python
