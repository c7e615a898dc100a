// SPDX-License-Identifier: Apache-2.0
// Reference convolution, shared by the float and the integer ops.
#pragma once

#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/window.h"

namespace xrt::native {

struct ConvPlan {
  Window window;
  std::int64_t groups;
  Dims output;
};

// Throws where shapes, group and window do not fit.
ConvPlan plan_conv(const WindowAttributes& attributes, std::int64_t groups, const Dims& x,
                   const Dims& w);

// y = x * w + bias for tensors of one compute type; `bias` may be null. Padding reads 0.
void convolve(const KernelContext& context, const ConvPlan& plan, const Tensor& x, const Tensor& w,
              const Tensor* bias, Tensor& y);

}  // namespace xrt::native
