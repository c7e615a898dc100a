// SPDX-License-Identifier: Apache-2.0
// A bound on what int8 may cost in right answers, for quantize_model().
#pragma once

#include <filesystem>

#include "evaluation/evaluate.h"
#include "xrt/options.h"
#include "xrt/quantize.h"

namespace xrt {

struct Top1Bound {
  double plain = 0;   // part of the samples that the model in floating point is right about
  double wanted = 0;  // that the quantised one has to be right about
  Judge judge;        // the part that a graph is right about
};

// `most_loss` is in percentage points. Runs the model once over the set. `set` outlives the bound.
// Throws kInvalidArgument for a loss that is not from 0 to 100, and what evaluate() throws.
Top1Bound bound_top_1(const std::filesystem::path& model, const LabelledSet& set,
                      const BatchOptions& batches, double most_loss, const ProgramOptions& program);

}  // namespace xrt
