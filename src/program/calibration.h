// SPDX-License-Identifier: Apache-2.0
// Ranges of a graph's values, by samples that are at hand as a whole. What was found is kept in the
// disk cache (cache_entry.h): the same graph, names, samples and options are not run twice.
#pragma once

#include <filesystem>
#include <vector>

#include "xrt/export.h"
#include "xrt/quantize.h"

namespace xrt {

// A sample has one value per graph input, in order. `cache_dir`: empty for no cache; a folder that
// cannot be used is a warning. Throws as Calibrator, and kInvalidArgument where there is no sample.
XRT_API ValueRanges calibrate(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                              const QuantizeOptions& options,
                              const std::filesystem::path& cache_dir);

}  // namespace xrt
