// SPDX-License-Identifier: Apache-2.0
// The graph passes, in order, until nothing changes (a bounded number of rounds).
//
//   run_passes(graph, {.evaluate = …, .dump_dir = "dump"});
//
// Every pass leaves a graph that verifies and computes the same outputs under the same names; it
// runs on sub-graphs too. Debug builds verify after each pass. With a dump_dir the graph is written
// as text before the first pass and after each pass that changed it: 000_before.txt,
// 001_<pass>.txt, …
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// Computes a graph without inputs: its outputs in order. Throws xrt::Error where it cannot.
using Evaluator = std::function<std::vector<Data>(const Graph& graph)>;

class FoldBudget;

struct PassOptions {
  Evaluator evaluate;  // none: constants are not folded
  std::filesystem::path dump_dir;
  // By how much folded constants may make the graph larger; run_passes() sets it where it is null.
  std::shared_ptr<FoldBudget> fold_budget = nullptr;
};

struct Pass {
  std::string name;
  // True if the graph changed.
  std::function<bool(Graph&, const PassOptions&)> run;
};

// The passes run_passes runs, in order. The first brings every node to its canonical form
// (ops/canonical.h), which all others read.
XRT_API const std::vector<Pass>& standard_passes();

// Runs `passes` round after round until none changes anything; types are inferred in between.
XRT_API void run_passes(Graph& graph, const PassOptions& options, const std::vector<Pass>& passes);
XRT_API void run_passes(Graph& graph, const PassOptions& options);

}  // namespace xrt
