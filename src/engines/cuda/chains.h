// SPDX-License-Identifier: Apache-2.0
// What a convolution or a product computes besides itself: the bias, the addition and the
// activation behind it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engines/cuda/plan.h"
#include "xrt/engine.h"

namespace xrt::cuda {

struct PlanOptions;

// The nodes from `first` on that one call of a library computes, in order; empty where `first` is
// no convolution or product for one. Nodes that `is_taken` are another's.
std::vector<NodeId> chain_from(const GraphView& graph, NodeId first, const PlanOptions& options,
                               const std::function<bool(NodeId)>& is_taken);

// What the nodes behind the first one are.
struct Chain {
  // A BatchNormalization behind a convolution of half precision: its scale goes into
  // the weights and its shift becomes the bias, each rounded once.
  std::optional<NodeId> norm;
  std::optional<ValueId> bias;      // per channel (a convolution's) or per column (a product's)
  std::optional<ValueId> residual;  // of the result's shape
  Activation activation = Activation::kNone;
};
// BatchNormalization of inference, which may stand between casts, behind a convolution of half
// precision with constant weights; empty where there is none.
std::vector<NodeId> norm_behind(const GraphView& graph, const NodeView& convolution);
// Which of such nodes normalises.
NodeId norm_of(const GraphView& graph, const std::vector<NodeId>& nodes);
Chain read_chain(const GraphView& graph, const std::vector<NodeId>& nodes);

}  // namespace xrt::cuda
