// SPDX-License-Identifier: Apache-2.0
// Where two engines begin to differ on a model, and the smallest piece of it that shows so.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

struct CompareOptions {
  // Engines in order of priority; what they refuse runs on "native" unless program.strict.
  std::vector<std::string> first, second;
  // Largest difference of floats over the range of the first's value; all else must be equal.
  double tolerance = 1e-3;
  // Look at every node even if the outputs of the whole model agree.
  bool every_node = false;
  ProgramOptions program = {};  // its engines do not count
  std::function<void(const std::string& what)> progress = {};
};

struct EngineDifference {
  bool differs = false;
  double outputs_error = 0;  // of the whole model, the worst output
  // The rest holds where `differs`.
  std::vector<std::string> nodes;  // of the piece, in topological order; one, if one will do
  std::string value;               // the first value that differs
  double error = 0;                // of that value; infinity for NaN, another dtype or shape
  std::string text;                // for people: which elements
  Graph piece;
  std::vector<Data> inputs, first, second;  // of the piece: what it reads, what the two make of it
};

// `inputs` follow graph.inputs(); one with a default may be none. Both engines run the graph as a
// program would, after the same passes. Where a node alone differs, given what the first engines
// compute before it, the first such node is the piece; else (engines that fuse may differ on
// several nodes only) the piece is the shortest stretch of the topological order that does. Throws
// what loading and running throw.
XRT_API EngineDifference compare_engines(const Graph& graph, std::span<const Data> inputs,
                                         const CompareOptions& options);

}  // namespace xrt
