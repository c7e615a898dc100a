// SPDX-License-Identifier: Apache-2.0
// What is to be quantised in a graph: the sums of products, and the values that get a scale.
#pragma once

#include <cstddef>
#include <vector>

#include "xrt/quantize.h"

namespace xrt::quantization {

struct Scheme {
  std::vector<NodeId> sums;  // Conv, Gemm and MatMul nodes, in topological order
  std::size_t kept = 0;      // those that stay in floating point
  std::vector<ValueId> values;
  // Of each value: values of one group share scale and zero point, so that what moves between
  // them may stay in integers.
  std::vector<std::size_t> groups;
};

Scheme make_scheme(const Graph& graph, const QuantizeOptions& options);

}  // namespace xrt::quantization
