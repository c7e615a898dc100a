// SPDX-License-Identifier: Apache-2.0
// Batch normalisation and dropout, in training and evaluation.
#pragma once

#include <utility>
#include <vector>

#include "xrt/graph.h"

namespace xrt::autodiff {

// BatchNormalization uses its running statistics, Dropout passes its input on.
void leave_training_mode(Graph& graph);

// Constants that are running means and variances, each once.
std::vector<ValueId> running_statistics(const Graph& graph);

struct TrainingMode {
  // Inputs (running statistics) and their next values.
  std::vector<std::pair<ValueId, ValueId>> running;
  // A uint32 scalar input that decides what is dropped; absent where nothing is.
  ValueId key;
};

// BatchNormalization uses the batch's statistics; the next running ones follow PyTorch, which takes
// the unbiased variance. Dropout drops by a hash of the element's number and the key, which gives
// the same mask on every engine. Shapes must be known.
TrainingMode enter_training_mode(Graph& graph);

}  // namespace xrt::autodiff
