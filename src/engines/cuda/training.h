// SPDX-License-Identifier: Apache-2.0
// Ops of training graphs that are written out in others.
#pragma once

#include <string_view>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::cuda {

// Of a tensor of half precision with channels along its second axis, in float32 and by channel: the
// mean and the variance; and of x, dy and a mean the sums of dy and of dy · (x - mean).
inline constexpr std::string_view kChannelMomentsOp = "xrt.cuda.ChannelMoments";
inline constexpr std::string_view kChannelProductsOp = "xrt.cuda.ChannelProducts";

// Whether expand_training() can write a loss, a Dropout or a normalisation of layers out.
Support supports_loss(const GraphView& graph, const NodeView& node);
Support supports_dropout(const GraphView& graph, const NodeView& node);

// Writes out NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss, Dropout that drops nothing,
// LayerNormalization that gives its statistics, BatchNormalization with the statistics of its
// batch, xrt.BatchNormalizationGradient and the bias of xrt.ConvWeightGradient: reductions in
// float32, or float64 where the operand is. xrt.MaxPoolGradient takes half precision as
// it is, and gradients of convolutions of single elements in half precision become products.
void expand_training(xrt::Graph& graph);

}  // namespace xrt::cuda
