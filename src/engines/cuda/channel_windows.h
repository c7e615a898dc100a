// SPDX-License-Identifier: Apache-2.0
// Windows over each channel by itself: depthwise convolutions, and pools, of values that lie
// channels last. Their kernels move little else than what they read and write: threads take several
// channels that lie together and several results beside each other, for which an element is read
// once.
#pragma once

#include "engines/cuda/fused.h"
#include "engines/cuda/plan.h"
#include "engines/cuda/windows.h"
#include "xrt/engine.h"

namespace xrt::cuda {

class Planner;

// Whether emit_over_channels() takes the convolution: of half precision, with one channel a group
// in and out, over a line or a plane, by windows that are not wide.
bool is_depthwise(const GraphView& graph, const NodeView& node);

// Of what is computed of a depthwise convolution's results, which lie channels last: the code finds
// each one's sum in sum_. `x` is the operand, `w` the weights.
void emit_over_channels(Planner& planner, const Fused& fused, const Window& window, const View& x,
                        const View& w);

// Whether emit_channel_pool() takes the pool: MaxPool without places or AveragePool, without
// dilations, by windows that are not wide, of floats that lie channels last, as `x` does.
bool is_channel_pool(const NodeView& node, const Window& window, const View& x);
void emit_channel_pool(Planner& planner, const NodeView& node, const Window& window, const View& x,
                       const View& y);

}  // namespace xrt::cuda
