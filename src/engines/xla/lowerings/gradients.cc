// SPDX-License-Identifier: Apache-2.0
// Gradients of the domain "xrt" (docs/reference/gradients.md).
#include <algorithm>

#include "engines/xla/lowerings/window.h"

namespace xrt::xla {

namespace {

constexpr std::int64_t kMaxWrittenGroups = 64;  // written out, one convolution each
constexpr std::int64_t kMaxWindow = 256;        // positions of a window written out

std::string dimension_letters(std::string_view first, std::size_t spatial, std::string_view last) {
  std::string out(first);
  for (std::size_t i = 0; i < spatial; ++i) out += static_cast<char>('0' + i);
  return out + std::string(last);
}

Dims window_dims(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

// A slice with `stride` between the elements that one position of the window meets.
struct Shift {
  Dims starts, limits, strides;
};

Shift shift_of(const Window& w, const Dims& padded, const Dims& position) {
  Shift s{Dims(padded.size(), 0), padded, Dims(padded.size(), 1)};
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    s.starts[i + 1] = position[i] * w.dilations[i];
    s.strides[i + 1] = w.strides[i];
    s.limits[i + 1] = s.starts[i + 1] + (w.out[i] - 1) * w.strides[i] + 1;
  }
  return s;
}

bool next_position(Dims& position, const Dims& kernel) {
  for (std::size_t i = position.size(); i-- > 0;) {
    if (++position[i] < kernel[i]) return true;
    position[i] = 0;
  }
  return false;
}

Hlo padded(HloBuilder& b, const Hlo& x, const Window& w, double value) {
  Dims low(x.dims.size(), 0);
  Dims high(x.dims.size(), 0);
  for (std::size_t i = 0; i < w.pads.size(); ++i) {
    low[i + 1] = w.pads[i].first;
    high[i + 1] = w.pads[i].second;
  }
  return b.pad(x, b.scalar(value, x.dtype), low, high);
}

// One channel of X per channel of dY: sums of shifted products.
Hlo depthwise_gradient(HloBuilder& b, const Hlo& x, const Hlo& dy, const Window& w) {
  const Hlo wide = padded(b, x, w, 0);
  const Dims axes = range_dims(0, x.rank() - 1);
  const std::int64_t channels = dy.dims.back();
  Hlos rows;
  Dims position(w.kernel.size(), 0);
  do {
    const Shift s = shift_of(w, wide.dims, position);
    const Hlo product = b.mul(b.slice(wide, s.starts, s.limits, s.strides), dy);
    rows.push_back(b.reshape(b.reduce(product, "add", axes), {1, channels}));
  } while (next_position(position, w.kernel));
  Dims dims{channels, 1};
  dims.insert(dims.end(), w.kernel.begin(), w.kernel.end());
  return b.reshape(b.transpose(b.concatenate(rows, 0), {1, 0}), dims);
}

// Batch and channels change places, and what was the stride is now the distance of the elements of
// the second operand.
void lower_conv_weight_gradient(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const DType dtype = compute_dtype(result);
  const Dims x_dims = c.dims(0);
  const Dims y_dims = c.dims(1);
  c.need(x_dims.size() >= 3 && y_dims.size() == x_dims.size(), "the operands' ranks");
  const std::int64_t groups = c.attr("group");
  const Window w = read_window(c, window_dims(x_dims), need_ints(c.node, "kernel_shape"));
  c.need(w.out == window_dims(y_dims), "dY does not fit the convolution");
  const Hlo x = b.convert(c.in_last(0), dtype);
  const Hlo dy = b.convert(c.in_last(1), dtype);
  const std::size_t n = w.kernel.size();
  const auto channel = static_cast<std::int64_t>(n) + 1;
  if (c.wants(1)) {
    c.out(1, b.convert(b.reduce(dy, "add", range_dims(0, channel)), result));
  }
  const std::int64_t in_each = x_dims[1] / groups;
  const std::int64_t out_each = y_dims[1] / groups;
  if (groups > 1 && in_each == 1 && out_each == 1 && element_count(w.kernel) <= kMaxWindow) {
    c.out(0, b.convert(depthwise_gradient(b, x, dy, w), result));
    return;
  }
  c.need(groups <= kMaxWrittenGroups, "more than 64 groups that are not depthwise");
  ConvolutionSpec spec;
  spec.input = dimension_letters("f", n, "b");
  spec.kernel = dimension_letters("i", n, "o");
  spec.output = dimension_letters("b", n, "f");
  spec.strides = w.dilations;
  spec.kernel_dilation = w.strides;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t low = w.pads[i].first;
    const std::int64_t reach = (w.out[i] - 1) * w.strides[i] + 1;
    // As much at the end as gives the kernel's size; what no window reached is cut off.
    const std::int64_t wanted = (w.kernel[i] - 1) * w.dilations[i] + reach;
    spec.pads.emplace_back(low, wanted - x_dims[i + 2] - low);
  }
  // [C, kernel…, M] → [M, C, kernel…]
  Dims order{channel, 0};
  for (std::int64_t i = 1; i < channel; ++i) order.push_back(i);
  Hlos parts;
  for (std::int64_t g = 0; g < groups; ++g) {
    const Hlo own = groups == 1 ? x : b.slice_axis(x, channel, g * in_each, (g + 1) * in_each);
    const Hlo seen = groups == 1 ? dy : b.slice_axis(dy, channel, g * out_each, (g + 1) * out_each);
    parts.push_back(b.transpose(b.convolution(own, seen, spec, dtype), order));
  }
  c.out(0, b.convert(groups == 1 ? parts[0] : b.concatenate(parts, 0), result));
}

// Position by position of the window: where X is the maximum and none was met before, dY is added.
void lower_max_pool_gradient(NodeContext& c) {
  HloBuilder& b = c.b;
  const Dims x_dims = c.dims(0);
  c.need(x_dims.size() >= 3, "the operand's rank");
  const Window w = read_window(c, window_dims(x_dims), need_ints(c.node, "kernel_shape"));
  c.need(w.out == window_dims(c.dims(1)), "dY does not fit the pool");
  c.need(element_count(w.kernel) <= kMaxWindow, "a window of more than 256 elements");
  const Hlo x = c.in_last(0);
  const Hlo dy = c.in_last(1);
  Dims low(x.dims.size(), 0);
  Dims high(x.dims.size(), 0);
  for (std::size_t i = 0; i < w.pads.size(); ++i) {
    low[i + 1] = w.pads[i].first;
    high[i + 1] = w.pads[i].second;
  }
  const Hlo wide = b.pad(x, b.neutral("maximum", x.dtype), low, high);
  const auto at = [&](const Dims& position) {
    const Shift s = shift_of(w, wide.dims, position);
    return b.slice(wide, s.starts, s.limits, s.strides);
  };
  Dims position(w.kernel.size(), 0);
  Hlo highest = at(position);
  while (next_position(position, w.kernel)) highest = b.maximum(highest, at(position));
  const Hlo zero = b.zeros_like(dy);
  Hlo taken;
  Hlo total;
  position.assign(w.kernel.size(), 0);
  do {
    Hlo hit = b.compare("EQ", at(position), highest);
    if (taken.valid()) {
      const Hlo first = b.binary("and", hit, b.unary("not", taken));
      taken = b.binary("or", taken, hit);
      hit = first;
    } else {
      taken = hit;
    }
    const Shift s = shift_of(w, wide.dims, position);
    Dims behind(x.dims.size(), 0);
    Dims between(x.dims.size(), 0);
    for (std::size_t i = 0; i < w.kernel.size(); ++i) {
      behind[i + 1] = wide.dims[i + 1] - s.limits[i + 1];
      between[i + 1] = w.strides[i] - 1;
    }
    const Hlo part =
        b.pad(b.select(hit, dy, zero), b.scalar(0, dy.dtype), s.starts, behind, between);
    total = total.valid() ? b.add(total, part) : part;
  } while (next_position(position, w.kernel));
  Dims limits = wide.dims;
  for (std::size_t i = 0; i < limits.size(); ++i) limits[i] -= high[i];
  c.out_last(0, b.slice(total, low, limits));
}

// X, scale, mean, variance, dY → dX, dScale, dBias
void lower_batch_normalization_gradient(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const std::int64_t rank = c.rank(0);
  c.need(rank >= 2, "the operand's rank");
  const bool last = rank > 2 && (c.is_last(0) || c.is_last(4));
  const std::int64_t channel = last ? rank - 1 : 1;
  const Hlo x = b.convert(last ? c.in_last(0) : c.in(0), compute_dtype(result));
  const Hlo dy = b.convert(last ? c.in_last(4) : c.in(4), x.dtype);
  const auto along = [&](const Hlo& v) { return b.broadcast_in_dim(v, x.dims, {channel}); };
  const auto vector = [&](std::size_t i) { return b.convert(c.in(i), x.dtype); };
  Dims axes;
  double count = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i == channel) continue;
    axes.push_back(i);
    count *= static_cast<double>(x.dims[static_cast<std::size_t>(i)]);
  }
  const double epsilon = need_float(c.node, "epsilon");
  const Hlo spread = b.unary("sqrt", b.binary_scalar("add", vector(3), epsilon));
  const Hlo inverse = b.div(b.splat(1, spread.dtype, spread.dims), spread);
  const Hlo hat = b.mul(b.sub(x, along(vector(2))), along(inverse));
  const Hlo bias = b.reduce(dy, "add", axes);
  const Hlo scale = b.reduce(b.mul(dy, hat), "add", axes);
  const Hlo mean = along(b.binary_scalar("divide", bias, count));
  const Hlo share = b.mul(hat, along(b.binary_scalar("divide", scale, count)));
  const Hlo dx =
      b.convert(b.mul(along(b.mul(vector(1), inverse)), b.sub(b.sub(dy, mean), share)), result);
  last ? c.out_last(0, dx) : c.out(dx);
  c.out(1, b.convert(scale, c.dtype(1)));
  c.out(2, b.convert(bias, c.dtype(1)));
}

void lower_after(NodeContext& c) {
  const Hlo token = c.is_last(1) ? c.in_last(1) : c.in(1);
  if (c.is_last(0)) {
    c.out_last(0, c.b.after(c.in_last(0), token));
  } else {
    c.out(c.b.after(c.in(0), token));
  }
}

}  // namespace

void register_gradients(LoweringTable& t) {
  t.add("xrt.After", lower_after);
  t.add("xrt.ConvWeightGradient", lower_conv_weight_gradient);
  t.add("xrt.MaxPoolGradient", lower_max_pool_gradient);
  t.add("xrt.BatchNormalizationGradient", lower_batch_normalization_gradient);
}

}  // namespace xrt::xla
