// SPDX-License-Identifier: Apache-2.0
// The kernel families of this folder.
#pragma once

#include "engines/native/kernel.h"

namespace xrt::native {

// All of the families below.
void register_kernels(KernelRegistry& registry);

void register_shape_kernels(KernelRegistry& registry);
void register_unary_kernels(KernelRegistry& registry);
void register_binary_kernels(KernelRegistry& registry);
void register_logic_kernels(KernelRegistry& registry);
void register_cast_kernels(KernelRegistry& registry);
void register_move_kernels(KernelRegistry& registry);
void register_gather_kernels(KernelRegistry& registry);
void register_reduce_kernels(KernelRegistry& registry);
void register_matmul_kernels(KernelRegistry& registry);
void register_einsum_kernels(KernelRegistry& registry);
void register_normalization_kernels(KernelRegistry& registry);
void register_control_flow_kernels(KernelRegistry& registry);
void register_sequence_kernels(KernelRegistry& registry);
void register_select_kernels(KernelRegistry& registry);
void register_generate_kernels(KernelRegistry& registry);
void register_conv_kernels(KernelRegistry& registry);
void register_pool_kernels(KernelRegistry& registry);
void register_attention_kernels(KernelRegistry& registry);
void register_quantize_kernels(KernelRegistry& registry);
void register_resize_kernels(KernelRegistry& registry);
void register_recurrent_kernels(KernelRegistry& registry);
void register_string_kernels(KernelRegistry& registry);
void register_signal_kernels(KernelRegistry& registry);
void register_detection_kernels(KernelRegistry& registry);
void register_image_kernels(KernelRegistry& registry);
void register_optimizer_kernels(KernelRegistry& registry);
void register_update_kernels(KernelRegistry& registry);
void register_gradient_kernels(KernelRegistry& registry);
void register_ml_kernels(KernelRegistry& registry);
void register_linear_model_kernels(KernelRegistry& registry);
void register_tree_ensemble_kernels(KernelRegistry& registry);

}  // namespace xrt::native
