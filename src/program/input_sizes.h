// SPDX-License-Identifier: Apache-2.0
// The options `shapes`, `ranges` and `max_batch_size` against the inputs of a model.
//
// A dimension is named as the model or `shapes` names it; one without a name is INPUT[position].
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "options/sizes.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

// The name of a dimension that is no number.
std::string dimension_name(const std::string& input, std::size_t position, const Dim& dim);

// Gives the graph's inputs the types that the options refine them to; types of other values follow.
// Returns the options with all ranges that are known, those of max_batch_size included. A range of
// one size fixes its dimension. kInvalidArgument, with the names, for what contradicts the model:
// an unknown input or dimension, another rank, a size that differs from the declared one.
ProgramOptions refine_inputs(Graph& graph, ProgramOptions options);

// The ranges of a program whose inputs were refined when it was kept: of those that `options`
// name, the ones that the inputs still have.
struct InputType {
  std::string name;
  Type type;
};
ProgramOptions with_ranges_of(const std::vector<InputType>& inputs, ProgramOptions options);

}  // namespace xrt
