// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/fuse/optimize.h"

namespace xrt::native::dnn {

void optimize(Graph& graph) {
  fuse_formulas(graph);
  recognise_weight_gradients(graph);
  fuse_convolutions(graph);
  fuse_multiplications(graph);
  fuse_gradients(graph);
  use_channels_last(graph);
  fuse_elementwise(graph);
  narrow_factors(graph);
}

}  // namespace xrt::native::dnn
