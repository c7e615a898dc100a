// SPDX-License-Identifier: Apache-2.0
// Runs graphs for those that stand below the runtime: calibration.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/quantize.h"

namespace xrt {

// Graphs run as programs on `engines`; outputs must be tensors.
XRT_API GraphRunner program_runner(std::vector<std::string> engines = {"native"});

}  // namespace xrt
