// SPDX-License-Identifier: Apache-2.0
// Quantisation: float to small integers and back, and the ops that compute on them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

// A scale or zero point (per tensor, per slice of an axis, or per block) spread over `dims`.
Hlo spread(NodeContext& c, const Hlo& value, const Dims& dims, std::int64_t axis,
           std::int64_t block) {
  HloBuilder& b = c.b;
  if (element_count(value.dims) == 1 && value.rank() <= 1) {
    return b.broadcast_in_dim(b.reshape(value, {}), dims, {});
  }
  if (value.rank() == 1 && block == 0) return b.broadcast_in_dim(value, dims, {axis});
  c.need(block > 0 && value.rank() == static_cast<std::int64_t>(dims.size()),
         "a scale of another rank needs a block size");
  // [.., n, ..] → [.., n, block, ..] → [.., n · block, ..], cut to size.
  Dims wide = value.dims;
  wide.insert(wide.begin() + axis + 1, block);
  Dims map;
  for (std::int64_t i = 0; i < value.rank(); ++i) map.push_back(i <= axis ? i : i + 1);
  Dims flat = value.dims;
  flat[at(axis)] *= block;
  c.need(flat[at(axis)] >= dims[at(axis)], "the number of blocks");
  return b.slice_axis(b.reshape(b.broadcast_in_dim(value, wide, map), flat), axis, 0,
                      dims[at(axis)]);
}

struct Limits {
  double low, high;
};

Limits limits(DType dtype) {
  const int bits = bit_width(dtype);
  const double span = std::ldexp(1.0, is_signed_integer(dtype) ? bits - 1 : bits);
  return is_signed_integer(dtype) ? Limits{-span, span - 1} : Limits{0, span - 1};
}

// round(x) + zero point, saturated; `zero` may be invalid.
Hlo to_quantized(HloBuilder& b, const Hlo& scaled, const Hlo& zero, DType dtype) {
  Hlo value = b.unary("round_nearest_even", scaled);
  if (zero.valid()) value = b.add(value, b.convert(zero, value.dtype));
  const Limits range = limits(dtype);
  value = b.maximum(b.minimum(value, b.splat(range.high, value.dtype, value.dims)),
                    b.splat(range.low, value.dtype, value.dims));
  return b.convert(b.convert(value, DType::kInt32), dtype);
}

void lower_quantize_linear(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  const Hlo scale = c.in(1);
  const std::int64_t block = c.attr("block_size");
  const std::int64_t axis = x.rank() == 0 ? 0 : c.attr("axis");
  c.need(scale.rank() == 0 || element_count(scale.dims) == 1 || (axis >= 0 && axis < x.rank()),
         "the axis");
  DType dtype = c.has(2) ? c.dtype(2) : DType::kUInt8;
  if (c.attr("output_dtype") != 0) dtype = static_cast<DType>(c.attr("output_dtype"));
  const auto wanted = static_cast<DType>(c.attr("precision"));
  c.need(scale.dtype != DType::kFloat8E8M0, "a scale of float8_e8m0");
  const DType precision = compute_dtype(wanted == DType::kUndefined ? scale.dtype : wanted);
  const Hlo wide_scale = spread(c, b.convert(scale, precision), x.dims, axis, block);
  const Hlo scaled = b.div(b.convert(x, precision), wide_scale);
  Hlo zero;
  if (c.has(2)) {
    Hlo value = c.in(2);
    value = b.convert(
        is_packed(value.dtype) && is_integer(value.dtype) ? b.convert(value, DType::kInt32) : value,
        precision);
    zero = spread(c, value, x.dims, axis, block);
  }
  if (is_floating(dtype)) {
    const Hlo shifted = zero.valid() ? b.add(scaled, zero) : scaled;
    c.out(cast(b, shifted, dtype, c.attr("saturate") != 0));
    return;
  }
  c.out(to_quantized(b, scaled, zero, dtype));
}

void lower_dequantize_linear(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  const Hlo scale = c.in(1);
  c.need(scale.dtype != DType::kFloat8E8M0, "a scale of float8_e8m0");
  const std::int64_t block = c.attr("block_size");
  const std::int64_t axis = x.rank() == 0 ? 0 : c.attr("axis");
  const DType precision = compute_dtype(scale.dtype);
  Hlo value = x;
  if (is_integer(x.dtype)) {
    value = b.convert(x, DType::kInt32);
    if (c.has(2)) {
      value = b.sub(value, spread(c, b.convert(c.in(2), DType::kInt32), x.dims, axis, block));
    }
    value = b.convert(value, precision);
  } else {
    value = b.convert(x, precision);
    if (c.has(2)) {
      value = b.sub(value, spread(c, b.convert(c.in(2), precision), x.dims, axis, block));
    }
  }
  const Hlo y = b.mul(value, spread(c, b.convert(scale, precision), x.dims, axis, block));
  const auto output = static_cast<DType>(c.attr("output_dtype"));
  c.out(b.convert(y, output == DType::kUndefined ? scale.dtype : output));
}

// Operand minus its zero point in int32; `axis` is that of a zero point per slice.
Hlo centred(NodeContext& c, std::size_t operand, std::size_t zero_point, std::int64_t axis) {
  HloBuilder& b = c.b;
  const Hlo x = b.convert(c.in(operand), DType::kInt32);
  return b.sub(x, spread(c, b.convert(c.in(zero_point), DType::kInt32), x.dims, axis, 0));
}

void lower_qlinear_matmul(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo a = centred(c, 0, 2, std::max<std::int64_t>(c.rank(0) - 2, 0));
  const Hlo m = centred(c, 3, 5, c.rank(3) - 1);
  c.need(a.rank() >= 2 && (m.rank() == 2 || m.rank() == a.rank()), "the operands' ranks");
  Hlo sum;
  if (m.rank() == 2) {
    sum = b.dot_general(a, m, {}, {}, {a.rank() - 1}, {0}, DType::kInt32);
  } else {
    c.need(std::equal(a.dims.begin(), a.dims.end() - 2, m.dims.begin()), "the leading dimensions");
    sum = b.matmul(a, m, DType::kInt32);
  }
  const DType precision = compute_dtype(c.dtype(1));
  const auto scale = [&](std::size_t i, std::int64_t axis) {
    return spread(c, b.convert(c.in(i), precision), sum.dims, axis, 0);
  };
  const Hlo factor =
      b.div(b.mul(scale(1, sum.rank() - 2), scale(4, sum.rank() - 1)), scale(6, sum.rank() - 1));
  const Hlo zero = spread(c, b.convert(c.in(7), precision), sum.dims, sum.rank() - 1, 0);
  c.out(to_quantized(b, b.mul(b.convert(sum, precision), factor), zero, c.dtype(7)));
}

}  // namespace

Hlo requantize(HloBuilder& b, const Hlo& sum, const Hlo& factor, const Hlo& zero, DType dtype) {
  return to_quantized(b, b.mul(b.convert(sum, factor.dtype), factor), zero, dtype);
}

Hlo round_to(HloBuilder& b, const Hlo& x, DType dtype) { return to_quantized(b, x, {}, dtype); }

void register_quantize(LoweringTable& t) {
  t.add("QuantizeLinear", lower_quantize_linear);
  t.add("DequantizeLinear", lower_dequantize_linear);
  t.add("QLinearMatMul", lower_qlinear_matmul);
}

}  // namespace xrt::xla
