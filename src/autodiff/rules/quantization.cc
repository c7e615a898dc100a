// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear and DequantizeLinear: the gradient passes straight through the rounding, and ends
// where the number was cut off. Scales and zero points get none. Between the two the gradient is
// that of the quantised number, in floating point.
#include <cmath>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

// A scale or zero point (input i) as floats that broadcast with x.
Var spread(Rule& r, std::size_t i, DType dtype) {
  const Var v = cast(r.x(i), dtype);
  const Type type = r.x_type(i);
  const auto count = type.static_dims();
  if (r.attr("block_size") != 0) r.refuse("blocks of scales have no gradient");
  if (!type.has_rank()) r.refuse("the rank of a scale is not known");
  if (type.rank() == 0 || (count && element_count(*count) == 1)) return reshape(v, {});
  const std::int64_t rank = r.x_rank(0);
  std::int64_t axis = r.attr("axis");
  if (axis < 0) axis += rank;
  Dims dims(static_cast<std::size_t>(rank), 1);
  dims.at(static_cast<std::size_t>(axis)) = -1;
  return reshape(v, dims);
}

void quantize_rule(Rule& r) {
  const DType bytes = r.y_type().dtype;
  if (is_floating(bytes)) r.refuse("floating-point numbers of 8 bits have no gradient");
  const Var x = r.x();
  const Var scale = spread(r, 1, x.dtype);
  Var number = r.e.op("Round", {x / scale});
  if (r.has(2)) number = number + spread(r, 2, x.dtype);
  const double levels = std::ldexp(1.0, bit_width(bytes));
  const double low = is_signed_integer(bytes) ? -levels / 2 : 0;
  const Var inside = both(greater_equal(number, r.e.scalar(low, x.dtype)),
                          less_equal(number, r.e.scalar(low + levels - 1, x.dtype)));
  r.give(0, masked(inside, r.dy() / scale));
}

void dequantize_rule(Rule& r) { r.give(0, r.dy() * spread(r, 1, r.dy().dtype)); }

}  // namespace

void register_quantization(RuleRegistry& registry) {
  registry.add("QuantizeLinear", quantize_rule, inputs({0}));
  registry.add("DequantizeLinear", dequantize_rule, inputs({0}));
}

}  // namespace xrt::autodiff
