// SPDX-License-Identifier: Apache-2.0
// Sums of products and pools.
#include <algorithm>
#include <numeric>

#include "lower.h"

namespace xrt::lite {

Lowering::Window Lowering::window(const Node& node, const Dims& x,
                                  const std::vector<std::int64_t>& kernel) {
  const std::size_t n = kernel.size();
  if (x.size() != n + 2 || n < 1 || n > 2) refuse(node, "one or two spatial dimensions only");
  std::vector<std::int64_t> strides = node.attr_ints("strides", {1, 1});
  std::vector<std::int64_t> dilations = node.attr_ints("dilations", {1, 1});
  std::vector<std::int64_t> pads = node.attr_ints("pads", std::vector<std::int64_t>(2 * n, 0));
  const auto number = [](std::int64_t v) { return static_cast<int>(v); };
  Window w;
  if (n == 2) {
    w = {number(kernel[0]),    number(kernel[1]),    number(strides[0]), number(strides[1]),
         number(dilations[0]), number(dilations[1]), number(pads[0]),    number(pads[1]),
         number(pads[2]),      number(pads[3])};
  } else {
    w.kw = number(kernel[0]), w.stride_w = number(strides[0]), w.dilation_w = number(dilations[0]);
    w.pad_left = number(pads[0]), w.pad_right = number(pads[1]);
  }
  return w;
}

LConv Lowering::conv_shape(const Node& node, const Dims& x, const Dims& w) {
  const Window s = window(node, x, {w.begin() + 2, w.end()});
  LConv c;
  c.kh = s.kh, c.kw = s.kw, c.stride_h = s.stride_h, c.stride_w = s.stride_w;
  c.dilation_h = s.dilation_h, c.dilation_w = s.dilation_w;
  c.pad_top = s.pad_top, c.pad_left = s.pad_left;
  c.pad_bottom = s.pad_bottom, c.pad_right = s.pad_right;
  c.groups = static_cast<int>(node.attr_int("group", 1));
  return c;
}

void Lowering::conv(const Node& node) {
  const int x = input(node, 0);
  const std::optional<Tensor> factor = weights(node, 1);
  if (!factor) refuse(node, "its weights are no constant");
  if (dtype(x) != DType::kFloat32) refuse(node, "float32 only");
  LConv c = conv_shape(node, dims(x), factor->dims());
  c.x = x;
  c.weights = *factor;
  if (has_input(node, 2)) {
    const std::optional<Tensor> bias = weights(node, 2);
    if (!bias) refuse(node, "its bias is no constant");
    c.bias = *bias;
  }
  add(node, std::move(c), output(node));
}

void Lowering::gemm(const Node& node) {
  LGemm g;
  g.a = input(node, 0), g.b = input(node, 1);
  if (const std::optional<Tensor> factor = weights(node, 1)) {
    g.b = out_.add_value(node.name + "/weights", factor->dtype(), factor->dims());
    out_.values.back().constant = *factor;
  }
  if (dtype(g.a) != DType::kFloat32) refuse(node, "float32 only");
  g.transpose_a = node.attr_int("transA", 0) != 0;
  g.transpose_b = node.attr_int("transB", 0) != 0;
  g.alpha = node.attr_float("alpha", 1);
  const int y = output(node);
  if (has_input(node, 2)) {
    const std::optional<Tensor> c = weights(node, 2);
    const std::int64_t n = dims(y)[1];
    if (!c || (c->count() != n && c->count() != 1) || (c->rank() == 2 && c->dims()[0] != 1)) {
      refuse(node, "C must be a constant of one value per column");
    }
    const float beta = node.attr_float("beta", 1);
    g.bias = Tensor::allocate(DType::kFloat32, {n});
    for (std::int64_t i = 0; i < n; ++i) {
      g.bias.data<float>()[i] = beta * c->data<float>()[c->count() == 1 ? 0 : i];
    }
  }
  add(node, std::move(g), y);
}

void Lowering::matmul(const Node& node) {
  LGemm g;
  g.a = input(node, 0), g.b = input(node, 1);
  if (const std::optional<Tensor> factor = weights(node, 1)) {
    g.b = out_.add_value(node.name + "/weights", factor->dtype(), factor->dims());
    out_.values.back().constant = *factor;
  }
  if (dtype(g.a) != DType::kFloat32) refuse(node, "float32 only");
  if (dims(g.a).size() < 2 || dims(g.b).size() < 2 || dims(output(node)).size() > 6) {
    refuse(node, "ranks from 2 to 6 only");
  }
  add(node, std::move(g), output(node));
}

void Lowering::pool(const Node& node) {
  LPool p;
  p.x = input(node, 0);
  const Window w = window(node, dims(p.x), node.attr_ints("kernel_shape"));
  p.kind = node.op == "MaxPool" ? XRT_POOL_MAX : XRT_POOL_MEAN;
  if (p.kind == XRT_POOL_MEAN && dtype(p.x) != DType::kFloat32) refuse(node, "float32 only");
  p.kh = w.kh, p.kw = w.kw, p.stride_h = w.stride_h, p.stride_w = w.stride_w;
  p.dilation_h = w.dilation_h, p.dilation_w = w.dilation_w;
  p.pad_top = w.pad_top, p.pad_left = w.pad_left;
  p.pad_bottom = w.pad_bottom, p.pad_right = w.pad_right;
  p.count_include_pad = node.attr_int("count_include_pad", 0) != 0;
  add(node, p, output(node));
}

void Lowering::global_pool(const Node& node) {
  LReduce r;
  r.x = input(node, 0);
  if (dtype(r.x) != DType::kFloat32) refuse(node, "float32 only");
  r.kind = node.op == "GlobalAveragePool" ? XRT_REDUCE_MEAN : XRT_REDUCE_MAX;
  r.axes.resize(dims(r.x).size() - 2);
  std::iota(r.axes.begin(), r.axes.end(), 2);
  add(node, r, output(node));
}

}  // namespace xrt::lite
