// SPDX-License-Identifier: Apache-2.0
// What a calibration table (xrt/calibration.h) is of: the values of a graph, and its digests.
#pragma once

#include <string>
#include <vector>

#include "xrt/calibration.h"

namespace xrt::quantization {

// The values that quantize() needs the ranges of, in topological order, without their ranges.
std::vector<CalibratedValue> values_to_calibrate(const Graph& graph,
                                                 const QuantizeOptions& options);

struct GraphDigests {
  std::string structure, weights;  // see CalibrationTable
};

GraphDigests digests_of(const Graph& graph);

}  // namespace xrt::quantization
