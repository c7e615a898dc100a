// SPDX-License-Identifier: Apache-2.0
// The window of a convolution or pool: kernel, strides, dilations and padding as numbers.
//
// TensorRT's windows have two or three dimensions, so a window of one gets a leading dimension of
// length one.
#pragma once

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

struct Window {
  Dims kernel, strides, dilations, before, after;
};

// Reads strides, dilations and pads; `kernel` has one entry per spatial dimension of operand 0.
// Refuses padding that is left open because those dimensions are.
Window read_window(NodeContext& c, const Dims& kernel);
// A leading dimension of length one.
Window widened(Window window);
nvinfer1::Dims spatial(const Dims& dims);

}  // namespace xrt::tensorrt
