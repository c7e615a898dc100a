// SPDX-License-Identifier: Apache-2.0
// Element-wise comparison of tensors.
#pragma once

#include <string>

#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

struct Difference {
  bool within = false;
  double max_absolute = 0;  // of finite elements
  double max_of_range = 0;  // max_absolute over the range of `expected`
  std::string text;         // one line for people
};

// |actual - expected| <= atol + rtol * |expected| for every element; NaN equals NaN. Another dtype
// or shape is a difference.
XRT_API Difference compare(const Tensor& actual, const Tensor& expected, double rtol, double atol);

}  // namespace xrt
