// SPDX-License-Identifier: Apache-2.0
// Samples in files to calibrate int8 with.
#pragma once

#include <cstddef>

#include "data/labelled_set.h"
#include "evaluation/batches.h"
#include "program/calibration.h"

namespace xrt {

// Gives `count` samples of the set (0: all) in batches of the first dimension that the inputs have.
// `set` outlives the source. options.batch and options.limit do not count.
SampleSource calibration_samples(const LabelledSet& set, const BatchOptions& options,
                                 std::size_t count);

// The same of whatever is there: a labelled set in each of its formats, labels or not, or samples
// (data/samples.h), which are prepared as options.preparation.image says. Files are read as the
// samples are asked for.
SampleSource calibration_samples(const LabelledSource& source, const BatchOptions& options,
                                 std::size_t count);

}  // namespace xrt
