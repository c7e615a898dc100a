// SPDX-License-Identifier: Apache-2.0
// Sliding windows: kernel, strides, dilations and padding of convolution and pooling nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sizes/padding.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt::native {

struct WindowAttributes {
  std::vector<std::int64_t> kernel;     // as given; may be empty for a convolution
  std::vector<std::int64_t> strides;    // empty: all 1
  std::vector<std::int64_t> dilations;  // empty: all 1
  std::vector<std::int64_t> pads;       // begin … then end …; empty: all 0
  AutoPad auto_pad = AutoPad::kNotSet;  // SAME where only the run tells the sizes
  bool ceil_mode = false;

  // Throws kInvalidArgument for numbers so large that sums and products of them could overflow.
  static WindowAttributes of(const Node& node);
};

// Of a tensor [batch, channels, spatial ...].
inline Dims spatial_dims(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

// The window for one input shape: every list has one entry per spatial dimension.
struct Window {
  Dims kernel;
  Dims strides;
  Dims dilations;  // as ONNX counts: 1 is dense
  Dims pads_begin;
  Dims pads_end;
  Dims output;  // spatial output dimensions
};

// kInvalidArgument where 'kernel_shape' is given and the weights have another.
void check_kernel(const WindowAttributes& attributes, const Dims& kernel);

// Throws kInvalidArgument where lists do not fit `spatial`, or the window does not fit the input.
Window resolve(const WindowAttributes& attributes, const Dims& spatial, const Dims& kernel);

}  // namespace xrt::native
