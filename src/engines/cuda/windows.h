// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engines/cuda/plan.h"
#include "xrt/engine.h"

namespace xrt::cuda {

// Strides, dilations and pads are written out in canonical nodes.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, begin, end;
};
std::optional<Window> window_of(const GraphView& graph, const NodeView& node);
// Of convolutions and of what they and pools change with.
Support supports_windows(const GraphView& graph, const NodeView& node);
// How cuDNN's images lie: channels last, but in float32, where products of whole planes are faster
// (on an H200).
std::vector<std::size_t> image_order(DType dtype, std::size_t rank);

class Planner;
// Puts a normalisation of inference behind a convolution into its weights and its bias: the weights
// times the scale, and the shift, in the type of the convolution.
void fold_norm(Planner& planner, const NodeView& norm, View& weights, std::optional<View>& bias);

}  // namespace xrt::cuda
