// SPDX-License-Identifier: Apache-2.0
#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {

const Registry& registry() {
  static const Registry made = [] {
    Registry registry;
    register_elementwise(registry);
    register_binary(registry);
    register_linear(registry);
    register_convolution(registry);
    register_pooling(registry);
    register_normalization(registry);
    register_shapes(registry);
    register_resizing(registry);
    register_indexing(registry);
    register_reductions(registry);
    register_losses(registry);
    register_gradients(registry);
    register_updates(registry);
    return registry;
  }();
  return made;
}

}  // namespace xrt::oneflow
