// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace xrt::python {

// CalibrationTable and Calibrator; openxrt/quantize.py is their user.
void bind_calibration(nanobind::module_& module);

}  // namespace xrt::python
