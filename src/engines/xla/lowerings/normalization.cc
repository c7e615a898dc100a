// SPDX-License-Identifier: Apache-2.0
// Batch, instance, group, layer and RMS normalisation; LRN; LpNormalization.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

Dims ones_at(Dims dims, const Dims& axes) {
  for (const std::int64_t axis : axes) dims[at(axis)] = 1;
  return dims;
}

double count_over(const Dims& dims, const Dims& axes) {
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(dims[at(axis)]);
  return count;
}

// Mean over `axes`, kept as dimensions of size 1.
Hlo mean(HloBuilder& b, const Hlo& x, const Dims& axes) {
  const Hlo sum = b.reshape(b.reduce(x, "add", axes), ones_at(x.dims, axes));
  return b.binary_scalar("divide", sum, count_over(x.dims, axes));
}

Hlo inverse_deviation(HloBuilder& b, const Hlo& variance, double epsilon) {
  const Hlo shifted = b.binary_scalar("add", variance, epsilon);
  return b.div(b.splat(1, shifted.dtype, shifted.dims), b.unary("sqrt", shifted));
}

struct Normalized {
  Hlo value;
  Hlo mean;               // dimensions of size 1 over the axes
  Hlo inverse_deviation;  // likewise
};

Normalized normalize(HloBuilder& b, const Hlo& x, const Dims& axes, double epsilon) {
  const Hlo center = mean(b, x, axes);
  const Hlo shifted = b.sub(x, b.broadcast_to(center, x.dims));
  const Hlo inverse = inverse_deviation(b, mean(b, b.mul(shifted, shifted), axes), epsilon);
  return {b.mul(shifted, b.broadcast_to(inverse, x.dims)), center, inverse};
}

// A vector along one axis of `x`.
Hlo along(HloBuilder& b, const Hlo& vector, const Hlo& x, std::int64_t axis) {
  return b.broadcast_in_dim(b.convert(vector, x.dtype), x.dims, {axis});
}

void lower_batch_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const double epsilon = need_float(c.node, "epsilon");
  const std::int64_t rank = c.rank(0);
  c.need(c.rank(0) >= 2, "channels");
  const bool last = c.is_last(0);
  const Hlo x = b.convert(last ? c.in_last(0) : c.in(0), compute_dtype(result));
  const std::int64_t channel = last ? rank - 1 : 1;
  c.need(rank >= 2, "the operand's rank");
  Hlo center = b.convert(c.in(3), x.dtype);
  Hlo variance = b.convert(c.in(4), x.dtype);
  if (c.attr("training_mode") != 0) {
    Dims axes;
    for (std::int64_t i = 0; i < rank; ++i) {
      if (i != channel) axes.push_back(i);
    }
    const Hlo batch_mean = mean(b, x, axes);
    const Hlo shifted = b.sub(x, b.broadcast_to(batch_mean, x.dims));
    const Dims vector{x.dims[at(channel)]};
    const Hlo batch_variance = b.reshape(mean(b, b.mul(shifted, shifted), axes), vector);
    const double momentum = need_float(c.node, "momentum");
    const auto running = [&](const Hlo& old, const Hlo& now) {
      return b.add(b.binary_scalar("multiply", old, momentum),
                   b.binary_scalar("multiply", now, 1 - momentum));
    };
    const Hlo flat_mean = b.reshape(batch_mean, vector);
    c.out(1, b.convert(running(center, flat_mean), c.dtype(3)));
    c.out(2, b.convert(running(variance, batch_variance), c.dtype(4)));
    center = flat_mean;
    variance = batch_variance;
  }
  // One multiplication and one addition per element.
  const Hlo factor = b.mul(b.convert(c.in(1), x.dtype), inverse_deviation(b, variance, epsilon));
  const Hlo offset = b.sub(b.convert(c.in(2), x.dtype), b.mul(center, factor));
  const Hlo y = b.convert(
      b.add(b.mul(x, along(b, factor, x, channel)), along(b, offset, x, channel)), result);
  last ? c.out_last(0, y) : c.out(y);
}

void lower_instance_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const bool last = c.is_last(0);
  const Hlo x = b.convert(last ? c.in_last(0) : c.in(0), compute_dtype(result));
  const std::int64_t channel = last ? x.rank() - 1 : 1;
  const Dims axes = last ? range_dims(1, x.rank() - 1) : range_dims(2, x.rank());
  const Hlo y = normalize(b, x, axes, need_float(c.node, "epsilon")).value;
  const Hlo scaled = b.add(b.mul(y, along(b, c.in(1), x, channel)), along(b, c.in(2), x, channel));
  last ? c.out_last(0, b.convert(scaled, result)) : c.out(b.convert(scaled, result));
}

void lower_group_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo in = c.in(0);
  const std::int64_t groups = c.attr("num_groups");
  c.need(in.rank() >= 2 && groups > 0 && in.dims[1] % groups == 0, "the groups");
  const Hlo x = b.convert(in, compute_dtype(result));
  const Hlo split = b.reshape(x, {x.dims[0], groups, element_count(x.dims) / (x.dims[0] * groups)});
  const Hlo y = b.reshape(normalize(b, split, {2}, need_float(c.node, "epsilon")).value, x.dims);
  c.out(b.convert(b.add(b.mul(y, along(b, c.in(1), x, 1)), along(b, c.in(2), x, 1)), result));
}

void lower_layer_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo x = b.convert(c.in(0), compute_dtype(result));
  const std::int64_t axis = c.attr("axis");
  const Normalized n = normalize(b, x, range_dims(axis, x.rank()), need_float(c.node, "epsilon"));
  Hlo y = b.mul(n.value, b.broadcast_to(b.convert(c.in(1), x.dtype), x.dims));
  if (c.has(2)) y = b.add(y, b.broadcast_to(b.convert(c.in(2), x.dtype), x.dims));
  c.out(b.convert(y, result));
  const auto stash = static_cast<DType>(c.attr("stash_type"));
  c.out(1, b.convert(n.mean, stash));
  c.out(2, b.convert(n.inverse_deviation, stash));
}

void lower_rms_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo x = b.convert(c.in(0), compute_dtype(result));
  const std::int64_t axis = c.attr("axis");
  const Hlo square = mean(b, b.mul(x, x), range_dims(axis, x.rank()));
  const Hlo inverse = inverse_deviation(b, square, need_float(c.node, "epsilon"));
  // Back in the operand's type before the scale, as the op's definition has it.
  const Hlo normal = b.convert(b.mul(x, b.broadcast_to(inverse, x.dims)), c.dtype(1));
  c.out(b.mul(normal, b.broadcast_to(c.in(1), x.dims)));
}

void lower_mean_variance_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = b.convert(c.in(0), compute_dtype(c.dtype(0)));
  const Dims axes = c.axes(need_ints(c.node, "axes"), x.rank());
  const Hlo center = mean(b, x, axes);
  const Hlo shifted = b.sub(x, b.broadcast_to(center, x.dims));
  const Hlo deviation = b.unary("sqrt", mean(b, b.mul(shifted, shifted), axes));
  const Hlo y = b.div(shifted, b.broadcast_to(b.binary_scalar("add", deviation, 1e-9), x.dims));
  c.out(b.convert(y, c.dtype(0)));
}

// y = x / (bias + alpha / size · Σ x²)^beta over a window of channels.
void lower_lrn(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const bool last = c.is_last(0);
  const Hlo x = b.convert(last ? c.in_last(0) : c.in(0), compute_dtype(result));
  const std::int64_t channel = last ? x.rank() - 1 : 1;
  const std::int64_t size = c.attr("size");
  const double alpha = need_float(c.node, "alpha");
  const double beta = need_float(c.node, "beta");
  const double bias = need_float(c.node, "bias");
  const Dims ones(x.dims.size(), 1);
  Dims window = ones;
  // Beyond the channels there is nothing to add.
  const std::int64_t channels = x.dims[at(channel)];
  const std::int64_t before = std::min((size - 1) / 2, channels);
  const std::int64_t behind = std::min(size - 1 - (size - 1) / 2, channels);
  window[at(channel)] = before + 1 + behind;
  Pads pads(x.dims.size(), {0, 0});
  pads[at(channel)] = {before, behind};
  const Hlo sum = b.reduce_window(b.mul(x, x), "add", window, ones, ones, pads);
  const Hlo scaled = b.binary_scalar("multiply", sum, alpha / static_cast<double>(size));
  const Hlo divisor = b.binary_scalar("power", b.binary_scalar("add", scaled, bias), beta);
  const Hlo y = b.convert(b.div(x, divisor), result);
  last ? c.out_last(0, y) : c.out(y);
}

void lower_lp_normalization(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo x = b.convert(c.in(0), compute_dtype(result));
  const std::int64_t axis = c.attr("axis");
  const std::int64_t p = c.attr("p");
  const Hlo powers = p == 1 ? b.unary("abs", x) : b.mul(x, x);
  Hlo norm = b.reduce(powers, "add", {axis});
  if (p != 1) norm = b.unary("sqrt", norm);
  const Hlo wide = b.broadcast_to(b.reshape(norm, ones_at(x.dims, {axis})), x.dims);
  // A vector of zeros stays one.
  const Hlo y =
      b.select(b.compare("EQ", wide, b.zeros_like(wide)), b.zeros_like(x), b.div(x, wide));
  c.out(b.convert(y, result));
}

}  // namespace

void register_normalization(LoweringTable& t) {
  t.add("BatchNormalization", lower_batch_normalization);
  t.add("InstanceNormalization", lower_instance_normalization);
  t.add("GroupNormalization", lower_group_normalization);
  t.add("LayerNormalization", lower_layer_normalization);
  t.add("RMSNormalization", lower_rms_normalization);
  t.add("MeanVarianceNormalization", lower_mean_variance_normalization);
  t.add("LRN", lower_lrn);
  t.add("LpNormalization", lower_lp_normalization);
}

}  // namespace xrt::xla
