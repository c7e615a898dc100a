// SPDX-License-Identifier: Apache-2.0
// int8 for a model in floating point.
#pragma once

#include "compile.h"

namespace xrt::lite {

// Puts QuantizeLinear and DequantizeLinear into a prepared graph as options.samples say, where it
// has none yet. Throws kInvalidArgument without samples for a model without Q/DQ, and what
// calibration throws.
void quantize_by_samples(Graph& graph, const CompileOptions& options,
                         std::vector<std::string>& notes);

}  // namespace xrt::lite
