// SPDX-License-Identifier: Apache-2.0
// Padding, strides and dilations of convolutions and pools.
#pragma once

#include <cstdint>
#include <string>

#include "engines/xla/lowering.h"

namespace xrt::xla {

struct Window {
  Dims kernel;
  Dims strides;
  Dims dilations;
  Pads pads;
  Dims out;  // spatial sizes of the result
};

// From the attributes kernel_shape (or `kernel`), strides, dilations, pads and ceil_mode.
// `spatial` are the operand's spatial sizes. Where ceil_mode adds a window, pads grow at the end.
Window read_window(NodeContext& c, const Dims& spatial, const Dims& kernel);

// The host's transposition of a constant; the element width is 1, 2, 4, 8 or 16 bytes.
Tensor transpose_tensor(const Tensor& x, const Dims& permutation);
Tensor reverse_tensor(const Tensor& x, const Dims& axes);

}  // namespace xrt::xla
