// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/register.h"

#include "engines/native/dnn/families.h"

namespace xrt::native::dnn {

void register_kernels(KernelRegistry& registry) {
  register_concat(registry);
  register_conv(registry);
  register_conv_transpose(registry);
  register_image_conv(registry);
  register_int8_matmul(registry);
  register_int8_moves(registry);
  register_int8_pool(registry);
  register_matmul(registry);
  register_pool(registry);
  register_normalization(registry);
  register_tile_conv(registry);
  register_tile_matmul(registry);
  register_training(registry);
  register_elementwise(registry);
}

}  // namespace xrt::native::dnn
