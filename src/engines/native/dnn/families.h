// SPDX-License-Identifier: Apache-2.0
// The kernel families of this folder.
#pragma once

#include "engines/native/kernel.h"

namespace xrt::native::dnn {

// Asked before the kernels of the folder kernels/.
inline constexpr int kPriority = 10;

void register_concat(KernelRegistry& registry);
void register_conv(KernelRegistry& registry);
void register_conv_transpose(KernelRegistry& registry);
void register_image_conv(KernelRegistry& registry);
void register_int8_matmul(KernelRegistry& registry);
void register_int8_moves(KernelRegistry& registry);
void register_int8_pool(KernelRegistry& registry);
void register_matmul(KernelRegistry& registry);
void register_pool(KernelRegistry& registry);
void register_normalization(KernelRegistry& registry);
void register_tile_conv(KernelRegistry& registry);
void register_tile_matmul(KernelRegistry& registry);
void register_training(KernelRegistry& registry);
void register_elementwise(KernelRegistry& registry);

}  // namespace xrt::native::dnn
