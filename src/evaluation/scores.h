// SPDX-License-Identifier: Apache-2.0
// A score per class as an answer: the best class, and at which place the right one stands.
#pragma once

#include <cstdint>
#include <vector>

#include "xrt/tensor.h"

namespace xrt {

// The scores of a batch as float64, [rows, classes].
struct Scores {
  std::int64_t rows = 0, classes = 0;
  std::vector<double> values;

  const double* row(std::int64_t at) const { return values.data() + at * classes; }
};

// Of an output whose first dimension is the batch; all others together are the classes. Throws
// kInvalidArgument for another first dimension, fewer than 2 classes, and elements that are no
// numbers.
Scores scores_of(const Tensor& output, std::int64_t batch);

// Of one row of an output [batch, steps, classes]: a row per step.
Scores scores_of_steps(const Tensor& output, std::int64_t row);

// The first of the largest.
std::int64_t best_class(const Scores& scores, std::int64_t row);
// How many classes stand before `label`: those of a larger score, and of an equal one those of a
// smaller number.
std::int64_t place_of(const Scores& scores, std::int64_t row, std::int64_t label);
// Whether a score is NaN or +infinity, which no order is made of.
bool has_no_order(const Scores& scores, std::int64_t row);

}  // namespace xrt
