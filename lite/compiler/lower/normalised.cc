// SPDX-License-Identifier: Apache-2.0
// LRN (A. Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks",
// 2012): y = x / (bias + alpha / size * sum of x² over `size` neighbouring channels)^beta. The sum
// with its factor and bias is a product of each pixel's squares with a band of ones.
#include <algorithm>

#include "ir/attributes.h"
#include "lir/ew_builder.h"
#include "lower/lower.h"

namespace xrt::lite {

void Lowering::local_response(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Dims shape = dims(x);
  if (dtype(x) != DType::kFloat32 || shape.size() < 3 || shape.size() > 4) {
    refuse(node, "float32 images only");
  }
  const std::int64_t channels = shape[1], size = need_int(node, "size");
  const int squares = out_.add_value(node.name + "/squares", DType::kFloat32, shape);
  EwBuilder square(out_, false);
  const int v = square.in(x);
  square.op(XRT_EW_MUL, v, v);
  add(node, square.take(), squares);
  LConv sum;
  sum.x = squares;
  Dims band(shape.size(), 1);
  band[0] = band[1] = channels;
  sum.weights = Tensor::allocate(DType::kFloat32, band);
  sum.bias = Tensor::allocate(DType::kFloat32, {channels});
  std::fill_n(sum.bias.data<float>(), channels, need_float(node, "bias"));
  std::fill_n(sum.weights.data<float>(), channels * channels, 0.0F);
  const float factor = need_float(node, "alpha") / static_cast<float>(size);
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int64_t last = std::min(channels - 1, c + size / 2);
    for (std::int64_t k = std::max<std::int64_t>(0, c - (size - 1) / 2); k <= last; ++k) {
      sum.weights.data<float>()[c * channels + k] = factor;
    }
  }
  const int sums = out_.add_value(node.name + "/sums", DType::kFloat32, shape);
  add(node, std::move(sum), sums);
  EwBuilder b(out_, false);
  const int power = b.op(XRT_EW_POW, b.in(sums), b.k(-need_float(node, "beta")));
  b.op(XRT_EW_MUL, b.in(x), power);
  add(node, b.take(), y);
}

}  // namespace xrt::lite
