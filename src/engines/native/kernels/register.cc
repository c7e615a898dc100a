// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/register.h"

namespace xrt::native {

void register_kernels(KernelRegistry& registry) {
  register_shape_kernels(registry);
  register_unary_kernels(registry);
  register_binary_kernels(registry);
  register_logic_kernels(registry);
  register_cast_kernels(registry);
  register_move_kernels(registry);
  register_gather_kernels(registry);
  register_reduce_kernels(registry);
  register_matmul_kernels(registry);
  register_einsum_kernels(registry);
  register_normalization_kernels(registry);
  register_control_flow_kernels(registry);
  register_sequence_kernels(registry);
  register_select_kernels(registry);
  register_generate_kernels(registry);
  register_conv_kernels(registry);
  register_pool_kernels(registry);
  register_attention_kernels(registry);
  register_quantize_kernels(registry);
  register_resize_kernels(registry);
  register_recurrent_kernels(registry);
  register_string_kernels(registry);
  register_signal_kernels(registry);
  register_detection_kernels(registry);
  register_image_kernels(registry);
  register_optimizer_kernels(registry);
  register_update_kernels(registry);
  register_gradient_kernels(registry);
  register_ml_kernels(registry);
  register_linear_model_kernels(registry);
  register_tree_ensemble_kernels(registry);
}

}  // namespace xrt::native
