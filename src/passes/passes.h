// SPDX-License-Identifier: Apache-2.0
// Every pass; what each does and what it must not do stands at the top of its file. All return true
// if the graph changed, and work on sub-graphs too.
#pragma once

#include <cstddef>

#include "passes/pass_manager.h"
#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

XRT_API bool remove_dead_code(Graph& graph);
XRT_API bool remove_identities(Graph& graph);
XRT_API bool share_common_subexpressions(Graph& graph);
// What folded constants may add to a graph, over all rounds of the passes.
class XRT_API FoldBudget {
 public:
  explicit FoldBudget(const Graph& graph);
  bool has(std::size_t bytes) const { return bytes <= left_; }
  void take(std::size_t bytes) { left_ -= bytes; }

 private:
  std::size_t left_;
};

XRT_API bool fold_constants(Graph& graph, const Evaluator& evaluate, FoldBudget& budget);
XRT_API bool fold_constants(Graph& graph, const Evaluator& evaluate);
XRT_API bool fold_shape_subgraphs(Graph& graph);
XRT_API bool fold_conv_batch_norm(Graph& graph);
XRT_API bool fold_pads(Graph& graph);
XRT_API bool split_row_scales(Graph& graph);
XRT_API bool inline_constant_ifs(Graph& graph);
// Shapes that a Loop keeps from iteration to iteration.
XRT_API bool fix_loop_shapes(Graph& graph);
// What a Loop carries unchanged becomes what its body captures.
XRT_API bool capture_loop_invariants(Graph& graph);
// Constants that sub-graphs capture become constants of the sub-graph.
XRT_API bool sink_constants(Graph& graph);

}  // namespace xrt
