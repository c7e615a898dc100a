// SPDX-License-Identifier: Apache-2.0
// The first samples of a labelled set, to calibrate int8 with.
#pragma once

#include <cstddef>

#include "data/labelled_set.h"
#include "evaluation/batches.h"
#include "program/quantize_model.h"

namespace xrt {

// Gives `count` samples of the set in batches of the first dimension that the inputs have. `set`
// outlives the source. options.batch and options.limit do not count.
SampleSource calibration_samples(const LabelledSet& set, const BatchOptions& options,
                                 std::size_t count);

}  // namespace xrt
