// SPDX-License-Identifier: Apache-2.0
// What plans are timed on: one run, or several where sizes differ from run to run.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/options.h"
#include "xrt/tensor.h"

namespace xrt {

struct Workload {
  // Inputs, in the order in which they came: complete, of the graph's input types. Plans are timed
  // over all of them in turn, so that a plan pays for each change of sizes as it would in use.
  std::vector<std::vector<Data>> runs;
  // From the end of a run to the begin of the next one, as they came: plans are timed with such
  // pauses, in which the threads of some engines go to sleep.
  std::chrono::nanoseconds pause{0};
  // The share of the program's runs whose sizes had not come before.
  double new_share = 0;
  // Engines that ran them: they know these sizes already. What the first runs of new sizes took is
  // told here, in microseconds.
  std::vector<std::string> served_by;
  std::vector<double> served_first_us;
};

// Copies of tensors: the caller's memory is the caller's again when the run is over.
std::vector<Data> copies(std::span<const Data> inputs);
std::size_t bytes_of(std::span<const Data> inputs);
// Whether two runs have tensors of the same dimensions.
bool have_equal_sizes(std::span<const Data> a, std::span<const Data> b);

// Values to measure with where the user's are not known: floats from -1 to 1, integers 0 or 1. Of
// dimensions with a range its least, usual and largest size. Nothing where an input is no tensor or
// its shape is not known.
std::optional<Workload> synthetic_workload(const Graph& graph, const ProgramOptions& options);

}  // namespace xrt
