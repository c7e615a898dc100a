// SPDX-License-Identifier: Apache-2.0
// Maxima and minima that are NaN where an element is.
//
// XLA's CPU compiler is free to drop a NaN of maximum and minimum, and does; told not to
// (xla_cpu_enable_fast_min_max=false) its softmax takes twice, its reductions three times as long.
// Reductions here go by whole numbers that are ordered as the floats are, with NaN at the end.
#include "engines/xla/lowering.h"

namespace xrt::xla {
namespace {

DType integer_of(DType dtype) { return dtype == DType::kFloat64 ? DType::kInt64 : DType::kInt32; }

// The bits below the sign turned over where it is set, which is its own inverse: positive numbers
// keep their bits, of negative ones those of the larger magnitude become the smaller.
Hlo turned(HloBuilder& b, const Hlo& bits) {
  const double shift = bits.dtype == DType::kInt64 ? 63 : 31;
  const Hlo lowest =
      b.splat(bits.dtype == DType::kInt64 ? -0x1p63 : -0x1p31, bits.dtype, bits.dims);
  const Hlo sign = b.binary("shift_right_arithmetic", bits, b.splat(shift, bits.dtype, bits.dims));
  return b.binary("xor", bits, b.binary("and", sign, b.unary("not", lowest)));
}

// `x` as whole numbers in its order; NaN is the last for "maximum", the first for "minimum".
Hlo keys(HloBuilder& b, const Hlo& x, bool largest) {
  const DType integer = integer_of(x.dtype);
  const Hlo first = b.splat(integer == DType::kInt64 ? -0x1p63 : -0x1p31, integer, x.dims);
  return b.select(b.compare("EQ", x, x), turned(b, b.bitcast(x, integer)),
                  largest ? b.unary("not", first) : first);
}

Hlo from_keys(HloBuilder& b, const Hlo& keys, DType dtype) {
  return b.bitcast(turned(b, keys), dtype);
}

// The key of −∞ ("maximum") or +∞.
Hlo neutral_key(HloBuilder& b, DType dtype, bool largest) {
  const bool wide = dtype == DType::kFloat64;
  const Hlo infinity = b.scalar(wide ? 0x7FFp52 : 0xFFp23, integer_of(dtype));
  return largest ? b.unary("not", infinity) : infinity;
}

bool has_keys(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

}  // namespace

Hlo extremum(HloBuilder& b, std::string_view op, const Hlo& x, const Hlo& y) {
  const Hlo result = b.binary(op, x, y);
  if (!is_floating(x.dtype)) return result;
  return b.select(b.compare("EQ", x, x), b.select(b.compare("EQ", y, y), result, y), x);
}

Hlo reduce_extremum(HloBuilder& b, std::string_view op, const Hlo& x, const Dims& axes) {
  if (!has_keys(x.dtype) || axes.empty()) return b.reduce(x, op, axes);
  const bool largest = op == "maximum";
  const Hlos reduced =
      b.reduce_many({keys(b, x, largest)}, {neutral_key(b, x.dtype, largest)}, axes,
                    [&](const Hlos& args) { return Hlos{b.binary(op, args[0], args[1])}; });
  return from_keys(b, reduced[0], x.dtype);
}

Hlo window_maximum(HloBuilder& b, const Hlo& x, const Dims& window, const Dims& strides,
                   const Dims& dilations, const Pads& pads) {
  if (!has_keys(x.dtype)) {
    return b.reduce_window(x, "maximum", window, strides, dilations, pads);
  }
  const Hlos reduced = b.reduce_window_many(
      {keys(b, x, true)}, {neutral_key(b, x.dtype, true)}, window, strides, dilations, pads,
      [&](const Hlos& args) { return Hlos{b.binary("maximum", args[0], args[1])}; });
  return from_keys(b, reduced[0], x.dtype);
}

}  // namespace xrt::xla
