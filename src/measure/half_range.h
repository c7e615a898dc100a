// SPDX-License-Identifier: Apache-2.0
// Which values of a graph are too large for half precision, on given inputs.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/options.h"
#include "xrt/precision.h"
#include "xrt/tensor.h"

namespace xrt {

struct HalfOverflows {
  struct Row {
    std::string node;  // that makes the value, or the first that reads an input of the graph
    std::string value;
    double magnitude = 0;  // the largest absolute value in float32
  };
  std::vector<Row> rows;       // in the order of computation
  std::set<std::string> keep;  // nodes that are to stay in float32 for these values
};

// Computes the graph in float32 on the fallback engine; values that casts to `precision` would make
// infinite. None for other precisions than bf16 and f16. Throws what running the graph throws.
XRT_API HalfOverflows find_half_overflows(const Graph& graph, std::span<const Data> inputs,
                                          Precision precision, const ProgramOptions& options);

// "node 'fc' makes 'y' of up to 1.2e+05"; the first few of them.
XRT_API std::string to_string(const HalfOverflows& overflows);

}  // namespace xrt
