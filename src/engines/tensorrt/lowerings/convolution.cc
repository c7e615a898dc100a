// SPDX-License-Identifier: Apache-2.0
// Convolutions and their transposes.
#include <algorithm>

#include "engines/tensorrt/lowerings/window.h"

namespace xrt::tensorrt {

Window read_window(NodeContext& c, const Dims& kernel) {
  const std::size_t n = kernel.size();
  Window w;
  w.kernel = kernel;
  c.need(!c.node.has("auto_pad"), "auto_pad needs known spatial dimensions");
  w.strides = need_ints(c.node, "strides");
  w.dilations = need_ints(c.node, "dilations");
  const Dims pads = need_ints(c.node, "pads");
  c.need(w.strides.size() == n && w.dilations.size() == n && pads.size() == 2 * n,
         "strides, dilations or pads do not have one entry per spatial dimension");
  w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  w.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  return w;
}

Window widened(Window w) {
  w.kernel.insert(w.kernel.begin(), 1);
  w.strides.insert(w.strides.begin(), 1);
  w.dilations.insert(w.dilations.begin(), 1);
  w.before.insert(w.before.begin(), 0);
  w.after.insert(w.after.begin(), 0);
  return w;
}

nvinfer1::Dims spatial(const Dims& dims) { return to_trt(dims); }

namespace {

bool negative(const Dims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](std::int64_t d) { return d < 0; });
}

// What convolutions and their transposes share: operands with at least two spatial dimensions.
struct Operands {
  Value x = nullptr;
  Dims kernel_dims;  // [M, C/group, k…] as ONNX has it
  bool one_dimensional = false;
};

Operands read_operands(NodeContext& c) {
  c.require_float(0);
  c.need(c.dtype(1) == c.dtype(0), "kernel and data differ in type");
  Operands o;
  o.x = c.in(0);
  o.kernel_dims = c.require_static(1, "the kernel");
  c.need(c.rank(0) >= 3 && c.rank(0) <= 5, "TensorRT convolves over one to three dimensions");
  c.need(o.kernel_dims.size() == static_cast<std::size_t>(c.rank(0)), "the kernel's rank");
  c.need(c.dims(0)[1] >= 0, "the count of channels is not known");
  if (c.rank(0) == 3) {
    o.one_dimensional = true;
    o.x = c.net.unsqueeze(o.x, {2});
    o.kernel_dims.insert(o.kernel_dims.begin() + 2, 1);
  }
  return o;
}

// Sets kernel and bias: weights where they are constants, else operands of the layer.
template <typename Layer>
void set_operands(NodeContext& c, Layer* layer, const Operands& o) {
  if (c.constant(1) == nullptr) {
    Value kernel = c.in(1);
    if (o.one_dimensional) kernel = c.net.unsqueeze(kernel, {2});
    layer->setInput(1, *kernel);
  }
  if (c.has(2) && c.constant(2) == nullptr) layer->setInput(2, *c.in(2));
}

nvinfer1::Weights weights_of(NodeContext& c, std::size_t i) {
  const Tensor* tensor = c.constant(i);
  if (tensor == nullptr) return {to_trt(c.dtype(0)), nullptr, 0};
  return c.net.weights(*tensor);
}

void conv(NodeContext& c) {
  const Operands o = read_operands(c);
  Dims kernel(o.kernel_dims.begin() + (o.one_dimensional ? 3 : 2), o.kernel_dims.end());
  Window w = read_window(c, need_ints(c.node, "kernel_shape"));
  if (o.one_dimensional) w = widened(w);
  c.need(!negative(w.before) && !negative(w.after), "negative padding");
  auto* layer =
      c.net.made(c.net.network().addConvolutionNd(*o.x, o.kernel_dims[0], spatial(w.kernel),
                                                  weights_of(c, 1), weights_of(c, 2)),
                 "a convolution");
  layer->setStrideNd(spatial(w.strides));
  layer->setDilationNd(spatial(w.dilations));
  layer->setPrePadding(spatial(w.before));
  layer->setPostPadding(spatial(w.after));
  layer->setNbGroups(c.attr("group"));
  set_operands(c, layer, o);
  const Value y = c.net.out(layer);
  c.out(o.one_dimensional ? c.net.squeeze(y, {2}) : y);
}

// out = (in - 1) stride + (kernel - 1) dilation + 1 - before - after + output_padding
void conv_transpose(NodeContext& c) {
  const Operands o = read_operands(c);
  Dims kernel(o.kernel_dims.begin() + (o.one_dimensional ? 3 : 2), o.kernel_dims.end());
  const std::size_t n = kernel.size();
  Window w = read_window(c, kernel);
  c.need(!c.node.has("output_shape"), "output_shape needs known spatial dimensions");
  const Dims extra = need_ints(c.node, "output_padding");
  for (std::size_t i = 0; i < n; ++i) w.after[i] -= extra[i];
  if (o.one_dimensional) w = widened(w);
  // What output_padding adds beyond the padding is a margin that no window reaches.
  Dims margin(w.after.size(), 0);
  for (std::size_t i = 0; i < w.after.size(); ++i) {
    margin[i] = std::max<std::int64_t>(0, -w.after[i]);
    w.after[i] = std::max<std::int64_t>(0, w.after[i]);
  }
  const bool widen = std::any_of(margin.begin(), margin.end(), [](auto m) { return m > 0; });
  c.need(!negative(w.before), "negative padding");
  c.need(!widen || !c.has(2), "output_padding beyond the padding, with a bias");
  const std::int64_t groups = c.attr("group");
  auto* layer = c.net.made(
      c.net.network().addDeconvolutionNd(*o.x, o.kernel_dims[1] * groups, spatial(w.kernel),
                                         weights_of(c, 1), weights_of(c, 2)),
      "a transposed convolution");
  layer->setStrideNd(spatial(w.strides));
  layer->setDilationNd(spatial(w.dilations));
  layer->setPrePadding(spatial(w.before));
  layer->setPostPadding(spatial(w.after));
  layer->setNbGroups(groups);
  set_operands(c, layer, o);
  Value y = c.net.out(layer);
  if (widen) {
    const Dims have = dims_of(y);
    c.need(is_static(have), "output_padding beyond the padding needs a static shape");
    Dims size = have;
    for (std::size_t i = 0; i < margin.size(); ++i) size[i + 2] += margin[i];
    y = c.net.slice(y, Dims(have.size(), 0), Extents(size.begin(), size.end()),
                    Dims(have.size(), 1), nvinfer1::SampleMode::kFILL,
                    c.net.scalar(c.dtype(0), 0.0));
  }
  c.out(o.one_dimensional ? c.net.squeeze(y, {2}) : y);
}

}  // namespace

void register_convolution(LoweringTable& t) {
  t.add("Conv", conv);
  t.add("ConvTranspose", conv_transpose);
}

}  // namespace xrt::tensorrt
