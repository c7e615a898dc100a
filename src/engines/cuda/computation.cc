// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/computation.h"

#include <variant>

namespace xrt::cuda {

std::unique_ptr<Computation> make_computation(const LibraryOptions& options, const Step& step,
                                              std::string_view saved) {
  if (const auto* product = std::get_if<ProductStep>(&step.work)) {
    return make_product(options, *product, saved);
  }
  if (const auto* convolution = std::get_if<ConvolutionStep>(&step.work)) {
    return make_convolution(options, *convolution, saved);
  }
  if (const auto* attention = std::get_if<AttentionStep>(&step.work)) {
    return make_attention(options, *attention, saved);
  }
  return nullptr;
}

}  // namespace xrt::cuda
