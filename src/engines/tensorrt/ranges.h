// SPDX-License-Identifier: Apache-2.0
// For which input shapes a plan is built: an optimisation profile, and when it must grow.
//
// A dimension that the graph leaves open has a range [min, max] and a length to optimise for. It
// comes from the option "shapes" ("N=1:8:32,H=224"), for a first dimension also from
// CompileOptions::max_batch_size, else from the first run. A run outside of the ranges makes them
// grow, which means another build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt::tensorrt {

struct Range {
  std::int64_t min = -1, opt = -1, max = -1;  // -1: not known yet
  bool known() const { return min >= 0; }
  bool fixed() const { return known() && min == max; }
  bool operator==(const Range&) const = default;
};

// Per input, per axis.
using Ranges = std::vector<std::vector<Range>>;

// Throws kInvalidArgument naming the part of the option that cannot be read.
Ranges initial_ranges(const Graph& graph, const CompileOptions& options);
bool complete(const Ranges& ranges);
// Gives dimensions without a range one: 1 to 64, 64 to optimise for.
void close(Ranges& ranges);
bool fits(const Ranges& ranges, const std::vector<Dims>& shapes);
// The least ranges that hold both; lengths above the old maximum become the ones to optimise for.
Ranges grown(const Ranges& ranges, const std::vector<Dims>& shapes);
// "input 'x': axis 0 is 16, built for 1 to 8" for the first dimension that does not fit.
std::string misfit(const Ranges& ranges, const std::vector<Dims>& shapes,
                   const std::vector<std::string>& names);

std::string to_text(const Ranges& ranges);  // "1:8:32,3;5"
Ranges from_text(const std::string& text);  // throws kInvalidModel

}  // namespace xrt::tensorrt
