// SPDX-License-Identifier: Apache-2.0
// How far outputs are from what they should be, where one output holds numbers of different ranges.
#pragma once

#include <cstddef>
#include <vector>

#include "xrt/tensor.h"

namespace xrt::quantization {

// Signal over noise of one output over all that was added.
//
// A detector gives boxes in pixels and scores below 1 as columns of one tensor: over all elements
// the boxes' signal hides that the scores are noise. So the columns (indices of the last axis) are
// put into bands by their largest values, and the worst band counts. A band holds at least a
// twentieth of the columns, that a class which is never seen does not stand for the output.
class OutputNoise {
 public:
  // Both are float32 and have equal shapes.
  void add(const Tensor& wanted, const Tensor& found);
  // Infinity where there is no noise.
  double decibels() const;

 private:
  struct Column {
    double peak = 0, signal = 0, noise = 0;
    void join(const Column& other);
  };
  std::vector<Column> columns_;
};

}  // namespace xrt::quantization
