// SPDX-License-Identifier: Apache-2.0
// Runs graphs as programs, for calibration (xrt/quantize.h).
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/quantize.h"
#include "xrt/registry.h"

namespace xrt {

// Runs a graph as a program on `engines`, in order of priority. Outputs must be tensors. A graph
// that cannot be compiled or run throws what Program::compile() and Program::run() throw.
XRT_API GraphRunner program_runner(std::vector<std::string> engines = {fallback_engine()});

}  // namespace xrt
