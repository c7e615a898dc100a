// SPDX-License-Identifier: Apache-2.0
// Conv, ConvTranspose, ConvInteger.
//
// XLA's CPU back end hands a convolution to Eigen. Only with the channels last and the kernel as
// height × width × in × out does that happen without transpositions, which cost several times the
// convolution itself; so that is the form used, and constant kernels are brought into it on the
// host, once. Eigen has no groups: a depthwise convolution is written as a sum of shifted products
// (20 to 50 times faster than XLA's loop), other groups as one convolution each.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engines/xla/lowerings/window.h"

namespace xrt::xla {

namespace {

constexpr std::int64_t kMaxGroups = 64;           // beyond, XLA's own grouped loop
constexpr std::int64_t kMaxDepthwiseWindow = 64;  // positions of a window written out

std::string letters(std::string_view first, std::size_t spatial, std::string_view last) {
  std::string out(first);
  for (std::size_t i = 0; i < spatial; ++i) out += static_cast<char>('0' + i);
  return out + std::string(last);
}

// The kernel in the order of `permutation`, spatially reversed where asked: on the host if it is a
// constant, else in the module.
Hlo arranged_kernel(NodeContext& c, std::size_t operand, const Dims& permutation, bool reversed) {
  const std::int64_t rank = c.rank(operand);
  const Dims spatial_axes = range_dims(2, rank);
  if (const Tensor* constant = c.constant(operand);
      constant != nullptr && constant->bytes() > HloBuilder::kInlineBytes) {
    const Tensor tensor = *constant;
    Dims dims;
    for (const std::int64_t axis : permutation) {
      dims.push_back(tensor.dims()[static_cast<std::size_t>(axis)]);
    }
    const std::string key = fmt::format("kernel{}{}{}{}", tensor.raw(), to_string(tensor.dims()),
                                        to_string(permutation), reversed);
    return c.b.weight(key, tensor.dtype(), dims, [tensor, permutation, reversed, spatial_axes] {
      return transpose_tensor(reversed ? reverse_tensor(tensor, spatial_axes) : tensor,
                              permutation);
    });
  }
  const Hlo kernel = c.b.transpose(c.in(operand), permutation);
  if (!reversed) return kernel;
  // Last: where a convolution reads a reversed kernel, GPU plugins see the gradient of another one.
  Dims axes;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] >= 2) axes.push_back(static_cast<std::int64_t>(i));
  }
  return c.b.reverse(kernel, axes);
}

// [M, C/g, spatial…] → [spatial…, C/g, M]
Dims kernel_last(std::int64_t rank) {
  Dims out = range_dims(2, rank);
  out.push_back(1);
  out.push_back(0);
  return out;
}

// Sum over the window's positions of a shifted operand times one weight per channel.
Hlo depthwise(NodeContext& c, const Hlo& x, const Hlo& kernel, const Window& w) {
  HloBuilder& b = c.b;
  const std::size_t n = w.kernel.size();
  const std::int64_t channels = kernel.dims.back();
  Dims low(n + 2, 0);
  Dims high(n + 2, 0);
  for (std::size_t i = 0; i < n; ++i) {
    low[i + 1] = w.pads[i].first;
    high[i + 1] = w.pads[i].second;
  }
  const Hlo padded = b.pad(x, b.scalar(0, x.dtype), low, high);
  const Hlo weights = b.reshape(kernel, {element_count(w.kernel), channels});
  Hlo total;
  Dims position(n, 0);
  for (std::int64_t k = 0; k < element_count(w.kernel); ++k) {
    Dims starts(n + 2, 0);
    Dims limits = padded.dims;
    Dims strides(n + 2, 1);
    for (std::size_t i = 0; i < n; ++i) {
      starts[i + 1] = position[i] * w.dilations[i];
      strides[i + 1] = w.strides[i];
      limits[i + 1] = starts[i + 1] + (w.out[i] - 1) * w.strides[i] + 1;
    }
    const Hlo shifted = b.slice(padded, starts, limits, strides);
    const Hlo weight = b.reshape(b.slice_axis(weights, 0, k, k + 1), {channels});
    const Hlo product = b.mul(
        shifted, b.broadcast_in_dim(weight, shifted.dims, {static_cast<std::int64_t>(n) + 1}));
    total = total.valid() ? b.add(total, product) : product;
    for (std::size_t i = n; i-- > 0;) {
      if (++position[i] < w.kernel[i]) break;
      position[i] = 0;
    }
  }
  return total;
}

Hlo convolve(HloBuilder& b, const Hlo& x, const Hlo& kernel, ConvolutionSpec spec,
             std::int64_t groups, DType result) {
  const std::size_t n = x.dims.size() - 2;
  spec.input = letters("b", n, "f");
  spec.output = spec.input;
  spec.kernel = letters("", n, "io");
  if (groups == 1 || groups > kMaxGroups) {
    spec.groups = groups;
    return b.convolution(x, kernel, spec, result);
  }
  const auto channel = static_cast<std::int64_t>(n) + 1;
  const std::int64_t in_each = x.dims.back() / groups;
  const std::int64_t out_each = kernel.dims.back() / groups;
  Hlos parts;
  for (std::int64_t g = 0; g < groups; ++g) {
    parts.push_back(b.convolution(b.slice_axis(x, channel, g * in_each, (g + 1) * in_each),
                                  b.slice_axis(kernel, channel, g * out_each, (g + 1) * out_each),
                                  spec, result));
  }
  return b.concatenate(parts, channel);
}

Dims spatial_of(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

void add_bias_and_finish(NodeContext& c, Hlo y, DType result) {
  if (c.has(2)) {
    const Hlo bias = c.b.convert(c.in(2), y.dtype);
    y = c.b.add(y, c.b.broadcast_in_dim(bias, y.dims, {y.rank() - 1}));
  }
  c.out_last(0, c.b.convert(y, result));
}

void lower_conv(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const DType dtype = compute_dtype(result);
  const Dims dims = c.dims(0);
  const Dims kernel_dims = c.dims(1);
  c.need(dims.size() >= 3 && dims.size() == kernel_dims.size(), "the operands' ranks");
  const std::int64_t groups = c.attr("group");
  c.need(groups > 0 && dims[1] == kernel_dims[1] * groups && kernel_dims[0] % groups == 0,
         "the groups do not fit the channels");
  const Window w = read_window(c, spatial_of(dims), spatial_of(kernel_dims));
  const auto rank = static_cast<std::int64_t>(dims.size());
  Hlo x = b.convert(c.in_last(0), dtype);
  const Hlo kernel = b.convert(arranged_kernel(c, 1, kernel_last(rank), false), dtype);
  Hlo y;
  if (groups > 1 && kernel_dims[1] == 1 && element_count(w.kernel) <= kMaxDepthwiseWindow) {
    if (const std::int64_t multiple = kernel_dims[0] / groups; multiple > 1) {
      Dims wide = x.dims;
      wide.push_back(multiple);
      Dims flat = x.dims;
      flat.back() *= multiple;
      x = b.reshape(b.broadcast_in_dim(x, wide, range_dims(0, x.rank())), flat);
    }
    y = depthwise(c, x, kernel, w);
  } else {
    ConvolutionSpec spec;
    spec.strides = w.strides;
    spec.pads = w.pads;
    spec.kernel_dilation = w.dilations;
    y = convolve(b, x, kernel, spec, groups, dtype);
  }
  add_bias_and_finish(c, y, result);
}

// The transposed convolution is a plain one over an operand with strides − 1 zeros between its
// elements, with the kernel reversed.
void lower_conv_transpose(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const DType dtype = compute_dtype(result);
  const Dims dims = c.dims(0);
  const Dims kernel_dims = c.dims(1);  // [C, M/g, spatial…]
  c.need(dims.size() >= 3 && dims.size() == kernel_dims.size(), "the operands' ranks");
  const std::int64_t groups = c.attr("group");
  c.need(groups > 0 && dims[1] == kernel_dims[0] && dims[1] % groups == 0,
         "the groups do not fit the channels");
  const std::size_t n = dims.size() - 2;
  const Dims strides = need_ints(c.node, "strides");
  const Dims dilations = need_ints(c.node, "dilations");
  const Dims pads = need_ints(c.node, "pads");
  const Dims extra = need_ints(c.node, "output_padding");
  c.need(!c.node.has("auto_pad") && !c.node.has("output_shape"),
         "auto_pad or output_shape with spatial sizes that the graph does not tell");
  ConvolutionSpec spec;
  spec.kernel_dilation = dilations;
  spec.input_dilation = strides;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t reach = (kernel_dims[i + 2] - 1) * dilations[i];
    spec.pads.emplace_back(reach - pads[i], reach - pads[i + n] + extra[i]);
  }
  // [C, M/g, k…] → [k…, C/g, M]: groups side by side among the outputs.
  const auto rank = static_cast<std::int64_t>(dims.size());
  Dims order = range_dims(2, rank);
  order.push_back(0);
  order.push_back(1);
  Hlo kernel = b.convert(arranged_kernel(c, 1, order, true), dtype);
  if (groups > 1) {
    const std::int64_t channel = rank - 2;
    const std::int64_t each = dims[1] / groups;
    Hlos parts;
    for (std::int64_t g = 0; g < groups; ++g) {
      parts.push_back(b.slice_axis(kernel, channel, g * each, (g + 1) * each));
    }
    kernel = b.concatenate(parts, rank - 1);
  }
  const Hlo y = convolve(b, b.convert(c.in_last(0), dtype), kernel, spec, groups, dtype);
  add_bias_and_finish(c, y, result);
}

// Exact sums of differences to the zero points. Operands: x, its zero point, w, its zero point.
Hlo integer_convolution(NodeContext& c, std::size_t x_at, std::size_t x_zero, std::size_t w_at,
                        std::size_t w_zero) {
  HloBuilder& b = c.b;
  const Dims dims = c.dims(x_at);
  const Dims kernel_dims = c.dims(w_at);
  c.need(dims.size() >= 3 && dims.size() == kernel_dims.size(), "the operands' ranks");
  const std::int64_t groups = c.attr("group");
  const Window w = read_window(c, spatial_of(dims), spatial_of(kernel_dims));
  const auto rank = static_cast<std::int64_t>(dims.size());
  Hlo x = b.convert(c.in_last(x_at), DType::kInt32);
  Hlo kernel = b.convert(arranged_kernel(c, w_at, kernel_last(rank), false), DType::kInt32);
  if (c.has(x_zero)) {
    const Hlo zero = b.convert(b.reshape(c.in(x_zero), {}), DType::kInt32);
    x = b.sub(x, b.broadcast_in_dim(zero, x.dims, {}));
  }
  if (c.has(w_zero)) {
    kernel = b.sub(kernel, b.broadcast_to(b.convert(c.in(w_zero), DType::kInt32), kernel.dims));
  }
  // Products of two bytes' differences stay below 2^16, so sums of 256 are exact in float32.
  const bool as_float = element_count(w.kernel) * kernel_dims[1] <= 256;
  const DType dtype = as_float ? DType::kFloat32 : DType::kInt32;
  ConvolutionSpec spec;
  spec.strides = w.strides;
  spec.pads = w.pads;
  spec.kernel_dilation = w.dilations;
  const Hlo y = convolve(b, b.convert(x, dtype), b.convert(kernel, dtype), spec, groups, dtype);
  return b.convert(y, DType::kInt32);
}

void lower_conv_integer(NodeContext& c) { c.out_last(0, integer_convolution(c, 0, 2, 1, 3)); }

// x, its scale and zero point, w, its scale and zero point, y's scale and zero point, the bias.
void lower_qlinear_conv(NodeContext& c) {
  HloBuilder& b = c.b;
  Hlo sum = integer_convolution(c, 0, 2, 3, 5);
  const auto per_channel = [&](const Hlo& value) {
    if (element_count(value.dims) == 1)
      return b.broadcast_in_dim(b.reshape(value, {}), sum.dims, {});
    return b.broadcast_in_dim(value, sum.dims, {sum.rank() - 1});
  };
  if (c.has(8)) sum = b.add(sum, per_channel(b.convert(c.in(8), DType::kInt32)));
  const auto scale = [&](std::size_t i) {
    return per_channel(b.convert(c.in(i), DType::kFloat32));
  };
  const Hlo factor = b.div(b.mul(scale(1), scale(4)), scale(6));
  c.out_last(0, requantize(b, sum, factor, scale(7), c.dtype(7)));
}

}  // namespace

void register_convolution(LoweringTable& t) {
  t.add("Conv", lower_conv);
  t.add("ConvTranspose", lower_conv_transpose);
  t.add("ConvInteger", lower_conv_integer);
  t.add("QLinearConv", lower_qlinear_conv);
}

}  // namespace xrt::xla
