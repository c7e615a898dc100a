// SPDX-License-Identifier: Apache-2.0
// Ops of training graphs that are written out in others.
#pragma once

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::cuda {

// Whether expand_training() can write a loss, a Dropout or a normalisation of layers out.
Support supports_loss(const GraphView& graph, const NodeView& node);
Support supports_dropout(const GraphView& graph, const NodeView& node);

// Writes out NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss, Dropout that drops nothing,
// LayerNormalization that gives its statistics, BatchNormalization with the statistics of its
// batch, xrt.BatchNormalizationGradient and the bias of xrt.ConvWeightGradient: reductions in
// float32, or float64 where the operand is.
void expand_training(xrt::Graph& graph);

}  // namespace xrt::cuda
