// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, the softmax family, arg-max, running sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

// An operand in whichever order it is stored, and the axes in that order.
struct Stored {
  Hlo value;
  Dims axes;
  bool last = false;
};

Dims to_stored(const Dims& axes, std::int64_t rank) {
  const Dims order = channels_last_permutation(rank);
  Dims out;
  for (const std::int64_t axis : axes) {
    out.push_back(std::find(order.begin(), order.end(), axis) - order.begin());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Stored stored(NodeContext& c, const Dims& axes) {
  if (c.is_last(0)) return {c.in_last(0), to_stored(axes, c.rank(0)), true};
  return {c.in(0), axes, false};
}

Dims with_ones(const Dims& dims, const Dims& axes) {
  Dims out = dims;
  for (const std::int64_t axis : axes) out[at(axis)] = 1;
  return out;
}

// Broadcasts a reduced value back over the reduced axes.
Hlo spread(HloBuilder& b, const Hlo& reduced, const Dims& dims, const Dims& axes) {
  Dims map;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dims.size()); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) map.push_back(i);
  }
  return b.broadcast_in_dim(reduced, dims, map);
}

double elements_over(const Dims& dims, const Dims& axes) {
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(dims[at(axis)]);
  return count;
}

using Reduction = std::function<Hlo(HloBuilder&, const Hlo&, const Dims&)>;

void reduce(NodeContext& c, const Reduction& make) {
  const std::int64_t rank = c.rank(0);
  const bool keep = c.attr("keepdims") != 0;
  Dims axes = c.axes_operand(1, rank, {});
  if (axes.empty() && c.attr("noop_with_empty_axes") == 0) axes = range_dims(0, rank);
  const Stored x = stored(c, axes);
  const DType dtype = compute_dtype(x.value.dtype);
  const Hlo result = c.b.convert(make(c.b, c.b.convert(x.value, dtype), x.axes), x.value.dtype);
  const bool all = static_cast<std::int64_t>(axes.size()) == rank;
  if (x.last && keep && !all) {
    c.out_last(0, c.b.reshape(result, with_ones(x.value.dims, x.axes)));
    return;
  }
  // Without kept dimensions the order of what is left matters: batch before channels before space.
  Hlo plain = result;
  if (x.last && !keep) {
    const bool channels_left = !std::binary_search(axes.begin(), axes.end(), 1);
    const auto space_left = rank - static_cast<std::int64_t>(axes.size()) -
                            (channels_left ? 1 : 0) -
                            (std::binary_search(axes.begin(), axes.end(), 0) ? 0 : 1);
    if (channels_left && space_left > 0) {
      const std::int64_t left = plain.rank();
      const std::int64_t lead = std::binary_search(axes.begin(), axes.end(), 0) ? 0 : 1;
      Dims permutation = range_dims(0, lead);
      permutation.push_back(left - 1);
      for (std::int64_t i = lead; i < left - 1; ++i) permutation.push_back(i);
      plain = c.b.transpose(plain, permutation);
    }
  }
  c.out(keep ? c.b.reshape(plain, with_ones(c.dims(0), axes)) : plain);
}

void lower_sum(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) { return b.reduce(x, "add", axes); });
}
void lower_prod(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    return b.reduce(x, "multiply", axes);
  });
}
void lower_max(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    if (x.dtype == DType::kBool) return b.reduce(x, "or", axes);
    return reduce_extremum(b, "maximum", x, axes);
  });
}
void lower_min(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    if (x.dtype == DType::kBool) return b.reduce(x, "and", axes);
    return reduce_extremum(b, "minimum", x, axes);
  });
}
void lower_mean(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    const Hlo sum = b.reduce(x, "add", axes);
    const double elements = elements_over(x.dims, axes);
    if (elements == 0 && is_integer(x.dtype)) return sum;  // a division by zero ends the process
    return b.binary_scalar("divide", sum, elements);
  });
}
void lower_sum_square(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    return b.reduce(b.mul(x, x), "add", axes);
  });
}
void lower_l1(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    const bool is_unsigned = is_integer(x.dtype) && !is_signed_integer(x.dtype);
    return b.reduce(is_unsigned ? x : b.unary("abs", x), "add", axes);
  });
}
void lower_l2(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    const Hlo sum = b.reduce(b.mul(x, x), "add", axes);
    if (!is_integer(x.dtype)) return b.unary("sqrt", sum);
    return cast(b, b.unary("sqrt", b.convert(sum, DType::kFloat64)), x.dtype);
  });
}
void lower_log_sum(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& x, const Dims& axes) {
    const Hlo sum = b.reduce(x, "add", axes);
    if (!is_integer(x.dtype)) return b.unary("log", sum);
    return cast(b, b.unary("log", b.convert(sum, DType::kFloat64)), x.dtype);
  });
}
void lower_log_sum_exp(NodeContext& c) {
  reduce(c, [](HloBuilder& b, const Hlo& in, const Dims& axes) {
    const Hlo x = is_integer(in.dtype) ? b.convert(in, DType::kFloat64) : in;
    const Hlo top = b.reduce(x, "maximum", axes);
    // The maximum is taken out unless it is infinite: inf − inf would be NaN.
    const Hlo shift = b.select(b.is_finite(top), top, b.zeros_like(top));
    const Hlo sum =
        b.reduce(b.unary("exponential", b.sub(x, spread(b, shift, x.dims, axes))), "add", axes);
    return cast(b, b.add(b.unary("log", sum), shift), in.dtype);
  });
}

// --- softmax ------------------------------------------------------------------------------------

void softmax(NodeContext& c, bool logarithm) {
  const std::int64_t axis = c.attr("axis");
  const Stored s = stored(c, {axis});
  HloBuilder& b = c.b;
  const Hlo x = b.convert(s.value, compute_dtype(s.value.dtype));
  const Hlo top = b.reduce(x, "maximum", s.axes);
  // In a fused computation the difference to the maximum need not be 0 at the maximum: logits of
  // 1e10 out of an average pool gave NaN. So the maximum is told by comparison.
  const Hlo wide_top = spread(b, top, x.dims, s.axes);
  const Hlo is_top = b.binary("and", b.compare("GE", x, wide_top), b.is_finite(wide_top));
  const Hlo zero = b.zeros_like(x);
  const Hlo shifted = b.select(is_top, zero, b.minimum(b.sub(x, wide_top), zero));
  const Hlo powers = b.unary("exponential", shifted);
  const Hlo sum = b.reduce(powers, "add", s.axes);
  const Hlo result = logarithm ? b.sub(shifted, spread(b, b.unary("log", sum), x.dims, s.axes))
                               : b.div(powers, spread(b, sum, x.dims, s.axes));
  const Hlo out = b.convert(result, s.value.dtype);
  s.last ? c.out_last(0, out) : c.out(out);
}
void lower_softmax(NodeContext& c) { softmax(c, false); }
void lower_log_softmax(NodeContext& c) { softmax(c, true); }

// Positions of the largest (or smallest) elements along one axis, that axis dropped. A NaN is the
// largest and the smallest, as in NumPy. The result is the same in whatever order XLA compares.
Hlo arg_extreme(HloBuilder& b, const Hlo& x, std::int64_t axis, bool largest, bool last_index) {
  const Hlo positions = b.iota(DType::kInt64, x.dims, axis);
  const Hlo worst = b.neutral(largest ? "maximum" : "minimum", x.dtype);
  const Hlo none = b.scalar(last_index ? -1 : 0x1p62, DType::kInt64);
  const Hlos results = b.reduce_many({x, positions}, {worst, none}, {axis}, [&](const Hlos& args) {
    Hlo better = b.compare(largest ? "GT" : "LT", args[0], args[2]);
    Hlo same = b.compare("EQ", args[0], args[2]);
    if (is_floating(x.dtype)) {
      const Hlo left_number = b.compare("EQ", args[0], args[0]);
      const Hlo left_nan = b.unary("not", left_number);
      const Hlo right_number = b.compare("EQ", args[2], args[2]);
      const Hlo right_nan = b.unary("not", right_number);
      better = b.binary("or", better, b.binary("and", left_nan, right_number));
      same = b.binary("or", same, b.binary("and", left_nan, right_nan));
    }
    const Hlo earlier = b.compare(last_index ? "GT" : "LT", args[1], args[3]);
    const Hlo keep = b.binary("or", better, b.binary("and", same, earlier));
    return Hlos{b.select(keep, args[0], args[2]), b.select(keep, args[1], args[3])};
  });
  return results[1];
}

void arg(NodeContext& c, bool largest) {
  const Hlo x = c.in(0);
  const std::int64_t axis = c.attr("axis");
  c.need(x.dims.empty() || x.dims[at(axis)] > 0, "an empty axis");
  c.need(!x.dims.empty(), "a scalar");
  const Hlo index = arg_extreme(c.b, c.b.convert(x, compute_dtype(x.dtype)), axis, largest,
                                c.attr("select_last_index") != 0);
  c.out(c.attr("keepdims") != 0 ? c.b.reshape(index, with_ones(x.dims, {axis})) : index);
}
void lower_arg_max(NodeContext& c) { arg(c, true); }
void lower_arg_min(NodeContext& c) { arg(c, false); }

void lower_hardmax(NodeContext& c) {
  const Hlo x = c.in(0);
  const std::int64_t axis = c.attr("axis");
  HloBuilder& b = c.b;
  const Hlo index = arg_extreme(b, b.convert(x, compute_dtype(x.dtype)), axis, true, false);
  c.out(b.convert(
      b.compare("EQ", b.iota(DType::kInt64, x.dims, axis), spread(b, index, x.dims, {axis})),
      x.dtype));
}

// --- running totals -----------------------------------------------------------------------------

void cumulate(NodeContext& c, std::string_view op) {
  const Hlo in = c.in(0);
  const std::int64_t axis = c.axis(c.integers(1, "the axis").at(0), in.rank());
  const bool exclusive = c.attr("exclusive") != 0;
  const bool reverse = c.attr("reverse") != 0;
  const Hlo x = c.b.convert(in, compute_dtype(in.dtype));
  const std::int64_t size = x.dims[at(axis)];
  if (size == 0) {
    c.out(in);
    return;
  }
  const Dims ones(x.dims.size(), 1);
  Dims window = ones;
  window[at(axis)] = size;
  Pads pads(x.dims.size(), {0, 0});
  // The window that ends (or begins) at an element: XLA makes a scan of these and of no others.
  pads[at(axis)] = reverse ? std::pair<std::int64_t, std::int64_t>(0, size - 1)
                           : std::pair<std::int64_t, std::int64_t>(size - 1, 0);
  Hlo y = c.b.reduce_window(x, op, window, ones, ones, pads);
  if (exclusive) {
    Dims low(x.dims.size(), 0);
    Dims high = low;
    low[at(axis)] = reverse ? -1 : 1;
    high[at(axis)] = -low[at(axis)];
    y = c.b.pad(y, c.b.scalar(op == "add" ? 0 : 1, y.dtype), low, high);
  }
  c.out(c.b.convert(y, in.dtype));
}
void lower_cum_sum(NodeContext& c) { cumulate(c, "add"); }
void lower_cum_prod(NodeContext& c) { cumulate(c, "multiply"); }

}  // namespace

void register_reduce(LoweringTable& t) {
  t.add("ReduceSum", lower_sum);
  t.add("ReduceProd", lower_prod);
  t.add("ReduceMax", lower_max);
  t.add("ReduceMin", lower_min);
  t.add("ReduceMean", lower_mean);
  t.add("ReduceSumSquare", lower_sum_square);
  t.add("ReduceL1", lower_l1);
  t.add("ReduceL2", lower_l2);
  t.add("ReduceLogSum", lower_log_sum);
  t.add("ReduceLogSumExp", lower_log_sum_exp);
  t.add("Softmax", lower_softmax);
  t.add("LogSoftmax", lower_log_softmax);
  t.add("Hardmax", lower_hardmax);
  t.add("ArgMax", lower_arg_max);
  t.add("ArgMin", lower_arg_min);
  t.add("CumSum", lower_cum_sum);
  t.add("CumProd", lower_cum_prod);
}

}  // namespace xrt::xla
