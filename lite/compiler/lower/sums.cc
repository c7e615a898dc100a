// SPDX-License-Identifier: Apache-2.0
// Sums of products and pools.
#include <algorithm>
#include <numeric>

#include "ir/attributes.h"
#include "lower/lower.h"

namespace xrt::lite {

Window Lowering::window(const Node& node, const Dims& x, const std::vector<std::int64_t>& kernel) {
  const std::size_t n = kernel.size();
  if (x.size() != n + 2 || n < 1 || n > 2) refuse(node, "one or two spatial dimensions only");
  const std::vector<std::int64_t> strides = need_ints(node, "strides");
  const std::vector<std::int64_t> dilations = need_ints(node, "dilations");
  const std::vector<std::int64_t> pads = need_ints(node, "pads");
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
  LConv c;
  static_cast<Window&>(c) = window(node, x, {w.begin() + 2, w.end()});
  c.groups = static_cast<int>(need_int(node, "group"));
  return c;
}

void Lowering::conv(const Node& node) {
  const int x = input(node, 0);
  const Tensor factor = numbers(node, 1, "filter");
  if (dtype(x) != DType::kFloat32) refuse(node, "float32 only");
  LConv c = conv_shape(node, dims(x), factor.dims());
  c.x = x;
  c.weights = factor;
  if (has_input(node, 2)) c.bias = numbers(node, 2, "bias");
  add(node, std::move(c), output(node));
}

// The second operand of a product: where it is a constant, its numbers.
int Lowering::factor(const Node& node) {
  const Tensor constant = constant_numbers(graph_, node.input(1));
  if (!constant.defined()) return input(node, 1);
  const int v = out_.add_value(node.name + "/weights", constant.dtype(), constant.dims());
  out_.values.back().constant = constant;
  return v;
}

void Lowering::gemm(const Node& node) {
  LGemm g;
  g.a = input(node, 0), g.b = factor(node);
  if (dtype(g.a) != DType::kFloat32) refuse(node, "float32 only");
  g.transpose_a = need_int(node, "transA") != 0;
  g.transpose_b = need_int(node, "transB") != 0;
  g.alpha = need_float(node, "alpha");
  const int y = output(node);
  if (has_input(node, 2)) {
    const auto terms = channel_terms(graph_, node.input(2), dims(y)[1]);
    if (!terms) refuse(node, "C must be a constant of one value per column");
    g.bias = Tensor::allocate(DType::kFloat32, {dims(y)[1]});
    std::transform(
        terms->begin(), terms->end(), g.bias.data<float>(),
        [beta = need_float(node, "beta")](double term) { return static_cast<float>(beta * term); });
  }
  add(node, std::move(g), y);
}

void Lowering::matmul(const Node& node) {
  LGemm g;
  g.a = input(node, 0), g.b = factor(node);
  if (dtype(g.a) != DType::kFloat32) refuse(node, "float32 only");
  if (dims(g.a).size() < 2 || dims(g.b).size() < 2 || dims(output(node)).size() > 6) {
    refuse(node, "ranks from 2 to 6 only");
  }
  add(node, std::move(g), output(node));
}

void Lowering::pool(const Node& node) {
  LPool p;
  p.x = input(node, 0);
  static_cast<Window&>(p) = window(node, dims(p.x), need_ints(node, "kernel_shape"));
  p.kind = node.op == "MaxPool" ? XRT_POOL_MAX : XRT_POOL_MEAN;
  if (p.kind == XRT_POOL_MEAN && dtype(p.x) != DType::kFloat32) refuse(node, "float32 only");
  p.count_include_pad = p.kind == XRT_POOL_MEAN && need_int(node, "count_include_pad") != 0;
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
