// SPDX-License-Identifier: Apache-2.0
// Ops of training graphs that are written out in others.
#pragma once

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::cuda {

// Writes out BatchNormalization with the statistics of its batch, xrt.BatchNormalizationGradient
// and the bias of xrt.ConvWeightGradient: reductions in float32, or float64 where the operand is.
void expand_training(xrt::Graph& graph);

}  // namespace xrt::cuda
