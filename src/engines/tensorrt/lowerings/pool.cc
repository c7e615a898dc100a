// SPDX-License-Identifier: Apache-2.0
// Pools over windows and over whole images.
#include <algorithm>
#include <cmath>

#include "engines/tensorrt/lowerings/window.h"

namespace xrt::tensorrt {

namespace {

bool all_are(const Dims& dims, std::int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d == value; });
}

// A pool of x in the window of the node's attributes.
Value pool(NodeContext& c, Value x, nvinfer1::PoolingType type, bool count_padding) {
  c.require_float(0);
  c.need(c.rank(0) >= 3 && c.rank(0) <= 5, "TensorRT pools over one to three dimensions");
  const Dims kernel = need_ints(c.node, "kernel_shape");
  c.need(kernel.size() + 2 == static_cast<std::size_t>(c.rank(0)), "the rank of kernel_shape");
  Window w = read_window(c, kernel);
  c.need(all_are(w.dilations, 1), "TensorRT's pools have no dilations");
  const bool ceil = c.attr("ceil_mode") != 0;
  if (ceil) {
    const Dims dims = c.require_static(0, "ceil_mode");
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const std::int64_t free = dims[i + 2] + w.before[i] + w.after[i] - kernel[i];
      const std::int64_t steps = (free + w.strides[i] - 1) / w.strides[i];
      // The standard drops a last window that would begin in the padding behind the image, and
      // leaves what lies beyond that padding out of an average.
      const bool dropped = steps * w.strides[i] >= dims[i + 2] + w.before[i];
      const bool beyond = steps * w.strides[i] != free;
      c.need(!dropped, "ceil_mode with a last window in the padding");
      c.need(!(beyond && count_padding), "ceil_mode with count_include_pad");
    }
  }
  const bool one = kernel.size() == 1;
  if (one) {
    w = widened(w);
    x = c.net.unsqueeze(x, {2});
  }
  auto* layer = c.net.made(c.net.network().addPoolingNd(*x, type, spatial(w.kernel)), "a pool");
  layer->setStrideNd(spatial(w.strides));
  layer->setPrePadding(spatial(w.before));
  layer->setPostPadding(spatial(w.after));
  layer->setAverageCountExcludesPadding(!count_padding);
  layer->setPaddingMode(ceil ? nvinfer1::PaddingMode::kEXPLICIT_ROUND_UP
                             : nvinfer1::PaddingMode::kEXPLICIT_ROUND_DOWN);
  const Value y = c.net.out(layer);
  return one ? c.net.squeeze(y, {2}) : y;
}

void max_pool(NodeContext& c) {
  c.need(!c.wants(1), "TensorRT's pools give no indices");
  c.out(pool(c, c.in(0), nvinfer1::PoolingType::kMAX, false));
}

void average_pool(NodeContext& c) {
  c.out(pool(c, c.in(0), nvinfer1::PoolingType::kAVERAGE, c.attr("count_include_pad") != 0));
}

// (sum |x|^p)^(1/p) over the window: an average that counts padding, times the window's size.
void lp_pool(NodeContext& c) {
  c.require_float(0);
  const double p = static_cast<double>(c.attr("p"));
  double size = 1;
  for (const std::int64_t k : need_ints(c.node, "kernel_shape")) size *= static_cast<double>(k);
  const Value powers = c.net.binary(c.net.unary(c.in(0), UN::kABS), p, EW::kPOW);
  const Value mean = pool(c, powers, nvinfer1::PoolingType::kAVERAGE, true);
  c.out(c.net.binary(c.net.binary(mean, size, EW::kPROD), 1.0 / p, EW::kPOW));
}

Dims image_axes(NodeContext& c) {
  Dims axes;
  for (std::int64_t i = 2; i < c.rank(0); ++i) axes.push_back(i);
  c.need(!axes.empty(), "there is no spatial dimension");
  return axes;
}

template <RD kOp>
void global_pool(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.reduce(c.in(0), kOp, image_axes(c), true));
}

void global_lp_pool(NodeContext& c) {
  c.require_float(0);
  const double p = static_cast<double>(c.attr("p"));
  const Value powers = c.net.binary(c.net.unary(c.in(0), UN::kABS), p, EW::kPOW);
  c.out(c.net.binary(c.net.reduce(powers, RD::kSUM, image_axes(c), true), 1.0 / p, EW::kPOW));
}

}  // namespace

void register_pool(LoweringTable& t) {
  t.add("MaxPool", max_pool);
  t.add("AveragePool", average_pool);
  t.add("LpPool", lp_pool);
  t.add("GlobalAveragePool", global_pool<RD::kAVG>);
  t.add("GlobalMaxPool", global_pool<RD::kMAX>);
  t.add("GlobalLpPool", global_lp_pool);
}

}  // namespace xrt::tensorrt
