// SPDX-License-Identifier: Apache-2.0
// MaxPool and GlobalMaxPool of float32 with loops of our own: a NaN is the largest number of its
// window, as for Max and ReduceMax, and what the border pads is smaller than −∞. oneDNN's pools
// drop a NaN that is not the last of its window, and begin with the lowest finite number.
#pragma once

#include <memory>

#include "engines/native/kernel.h"

namespace xrt::native::dnn {

// For float32; X and Y are stored as (batch, channels, spatial …) if the node's domain is empty,
// else as (batch, spatial …, channels). 1 to 3 spatial dimensions.
std::unique_ptr<Kernel> create_float_max_pool(const KernelCreateContext& context);

}  // namespace xrt::native::dnn
