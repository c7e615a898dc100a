// SPDX-License-Identifier: Apache-2.0
// Max, average and Lp pools, local and global, with the channels last; MaxUnpool.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engines/xla/lowerings/window.h"

namespace xrt::xla {

namespace {

struct PoolWindow {
  Window w;
  Dims window, strides, dilations;  // per dimension of the channels-last operand
  Pads pads;
};

PoolWindow pool_window(NodeContext& c) {
  const Dims dims = c.dims(0);
  c.need(dims.size() >= 3, "the operand's rank");
  PoolWindow p;
  p.w = read_window(c, Dims(dims.begin() + 2, dims.end()), need_ints(c.node, "kernel_shape"));
  const auto framed = [](const Dims& inner) {
    Dims out{1};
    out.insert(out.end(), inner.begin(), inner.end());
    out.push_back(1);
    return out;
  };
  p.window = framed(p.w.kernel);
  p.strides = framed(p.w.strides);
  p.dilations = framed(p.w.dilations);
  p.pads.emplace_back(0, 0);
  p.pads.insert(p.pads.end(), p.w.pads.begin(), p.w.pads.end());
  p.pads.emplace_back(0, 0);
  return p;
}

Hlo pool(HloBuilder& b, const Hlo& x, std::string_view op, const PoolWindow& p) {
  return b.reduce_window(x, op, p.window, p.strides, p.dilations, p.pads);
}

// Positions are counted in ONNX's order over the whole operand, or column by column.
void lower_max_pool(NodeContext& c) {
  HloBuilder& b = c.b;
  const PoolWindow p = pool_window(c);
  const Hlo x = c.in_last(0);
  if (!c.wants(1)) {
    const Hlo wide = b.convert(x, compute_dtype(x.dtype));
    const Hlo y = window_maximum(b, wide, p.window, p.strides, p.dilations, p.pads);
    c.out_last(0, b.convert(y, x.dtype));
    return;
  }
  const bool column_major = c.attr("storage_order") != 0;
  const Dims dims = c.dims(0);
  const std::size_t rank = dims.size();
  // Position = Σ index · stride over batch, channel and the spatial axes.
  Dims strides(rank, 1);
  std::int64_t size = 1;
  if (column_major) {
    for (std::size_t i = 2; i < rank; ++i) {
      strides[i] = size;
      size *= dims[i];
    }
  } else {
    for (std::size_t i = rank; i-- > 2;) {
      strides[i] = size;
      size *= dims[i];
    }
  }
  strides[1] = size;
  strides[0] = size * dims[1];
  Hlo position = b.splat(0, DType::kInt64, x.dims);
  const Dims order = channels_last_permutation(static_cast<std::int64_t>(rank));
  for (std::size_t i = 0; i < rank; ++i) {
    const Hlo index = b.iota(DType::kInt64, x.dims, static_cast<std::int64_t>(i));
    const auto stride = static_cast<double>(strides[static_cast<std::size_t>(order[i])]);
    position = b.add(position, b.binary_scalar("multiply", index, stride));
  }
  const Hlos results = b.reduce_window_many(
      {x, position}, {b.neutral("maximum", x.dtype), b.scalar(-1, DType::kInt64)}, p.window,
      p.strides, p.dilations, p.pads, [&](const Hlos& args) {
        // The first of equal elements, in whatever order XLA compares them; NaN wins, the last of
        // them, as in PyTorch; padding (position −1) never does.
        const Hlo outside = b.compare("LT", args[1], b.scalar(0, DType::kInt64));
        const Hlo inside_other = b.compare("GE", args[3], b.scalar(0, DType::kInt64));
        const Hlo same = b.compare("EQ", args[2], args[0]);
        Hlo larger = b.binary("or", b.compare("GT", args[2], args[0]),
                              b.binary("and", same, b.compare("LT", args[3], args[1])));
        if (is_floating(x.dtype)) {
          const Hlo other_nan = b.unary("not", b.compare("EQ", args[2], args[2]));
          const Hlo better =
              b.binary("or", b.compare("EQ", args[0], args[0]), b.compare("GT", args[3], args[1]));
          larger = b.binary("or", larger, b.binary("and", other_nan, better));
        }
        const Hlo other = b.binary("and", inside_other, b.binary("or", outside, larger));
        return Hlos{b.select(other, args[2], args[0]), b.select(other, args[3], args[1])};
      });
  c.out_last(0, results[0]);
  c.out_last(1, results[1]);
}

// How many elements each window holds: all, or those that are no padding.
Hlo window_counts(NodeContext& c, const PoolWindow& p, const Hlo& x, DType dtype, bool with_pads) {
  HloBuilder& b = c.b;
  Dims dims = x.dims;
  dims.front() = 1;
  dims.back() = 1;
  Hlo ones = b.splat(1, dtype, dims);
  Pads pads = p.pads;
  if (with_pads) {
    // Padding that was asked for counts; what ceil_mode added does not.
    const std::size_t n = p.w.kernel.size();
    const Dims wanted = need_ints(c.node, "pads");
    Dims low(dims.size(), 0);
    Dims high(dims.size(), 0);
    for (std::size_t i = 0; i < n; ++i) {
      low[i + 1] = pads[i + 1].first;
      high[i + 1] = std::min(pads[i + 1].second, wanted[i + n]);
      pads[i + 1] = {0, pads[i + 1].second - high[i + 1]};
    }
    ones = b.pad(ones, b.scalar(1, dtype), low, high);
  }
  return b.reduce_window(ones, "add", p.window, p.strides, p.dilations, pads);
}

void lower_average_pool(NodeContext& c) {
  HloBuilder& b = c.b;
  const PoolWindow p = pool_window(c);
  const DType result = c.dtype(0);
  const DType dtype = compute_dtype(result);
  const Hlo x = b.convert(c.in_last(0), dtype);
  const Hlo sum = pool(b, x, "add", p);
  const Hlo counts = window_counts(c, p, x, dtype, c.attr("count_include_pad") != 0);
  c.out_last(0, b.convert(b.div(sum, b.broadcast_to(counts, sum.dims)), result));
}

Hlo power(HloBuilder& b, const Hlo& x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return b.mul(x, x);
  if (exponent == 0.5) return b.unary("sqrt", x);
  return b.binary_scalar("power", x, exponent);
}

void lower_lp_pool(NodeContext& c) {
  HloBuilder& b = c.b;
  const PoolWindow p = pool_window(c);
  const DType result = c.dtype(0);
  const auto order = static_cast<double>(c.attr("p"));
  const Hlo x = b.unary("abs", b.convert(c.in_last(0), compute_dtype(result)));
  c.out_last(0, b.convert(power(b, pool(b, power(b, x, order), "add", p), 1 / order), result));
}

// --- global pools -------------------------------------------------------------------------------

Hlo global_reduce(HloBuilder& b, const Hlo& x, std::string_view op) {
  Dims kept(x.dims.size(), 1);
  kept.front() = x.dims.front();
  kept.back() = x.dims.back();
  return b.reshape(b.reduce(x, op, range_dims(1, x.rank() - 1)), kept);
}

void lower_global_max_pool(NodeContext& c) {
  const Hlo x = c.in_last(0);
  const Hlo wide = c.b.convert(x, compute_dtype(x.dtype));
  const Hlo y = reduce_extremum(c.b, "maximum", wide, range_dims(1, x.rank() - 1));
  Dims kept(x.dims.size(), 1);
  kept.front() = x.dims.front();
  kept.back() = x.dims.back();
  c.out_last(0, c.b.reshape(c.b.convert(y, x.dtype), kept));
}
void lower_global_average_pool(NodeContext& c) {
  HloBuilder& b = c.b;
  const Dims dims = c.dims(0);
  const Hlo x = b.convert(c.in_last(0), compute_dtype(c.dtype(0)));
  const auto count = static_cast<double>(element_count(Dims(dims.begin() + 2, dims.end())));
  c.out_last(0,
             b.convert(b.binary_scalar("divide", global_reduce(b, x, "add"), count), c.dtype(0)));
}
void lower_global_lp_pool(NodeContext& c) {
  HloBuilder& b = c.b;
  const auto order = static_cast<double>(c.attr("p"));
  const Hlo x = b.unary("abs", b.convert(c.in_last(0), compute_dtype(c.dtype(0))));
  c.out_last(
      0, b.convert(power(b, global_reduce(b, power(b, x, order), "add"), 1 / order), c.dtype(0)));
}

// Every element goes where its index says, in a larger array of zeros.
void lower_max_unpool(NodeContext& c) {
  HloBuilder& b = c.b;
  const Dims dims = c.dims(0);
  const std::size_t n = dims.size() - 2;
  const Dims kernel = need_ints(c.node, "kernel_shape");
  const Dims strides = need_ints(c.node, "strides");
  const Dims pads = need_ints(c.node, "pads");
  c.need(kernel.size() == n && strides.size() == n && pads.size() == 2 * n, "the window's rank");
  Dims inferred{dims[0], dims[1]};
  for (std::size_t i = 0; i < n; ++i) {
    inferred.push_back((dims[i + 2] - 1) * strides[i] - pads[i] - pads[i + n] + kernel[i]);
  }
  const Dims target = c.has(2) ? c.integers(2, "the output shape") : inferred;
  Hlo index = b.convert(c.in(1), DType::kInt64);
  if (c.has(2) && target != inferred) {
    // Indices count in the inferred shape.
    Hlo rest = index;
    Hlo moved = b.splat(0, DType::kInt64, index.dims);
    std::int64_t stride = 1;
    for (std::size_t i = target.size(); i-- > 0;) {
      const auto size = static_cast<double>(inferred[i]);
      const Hlo at = b.binary_scalar("remainder", rest, size);
      moved = b.add(moved, b.binary_scalar("multiply", at, static_cast<double>(stride)));
      rest = b.binary_scalar("divide", rest, size);
      stride *= target[i];
    }
    index = moved;
  }
  const Hlo x = c.in(0);
  const std::int64_t count = element_count(dims);
  const Hlo flat = b.splat(0, x.dtype, {element_count(target)});
  ScatterSpec spec;
  spec.inserted_window_dims = {0};
  spec.scatter_dims_to_operand_dims = {0};
  spec.index_vector_dim = 1;
  const Hlo filled = b.scatter(flat, b.reshape(index, {count, 1}), b.reshape(x, {count}), spec);
  c.out(b.reshape(filled, target));
}

}  // namespace

void register_pool(LoweringTable& t) {
  t.add("MaxPool", lower_max_pool);
  t.add("AveragePool", lower_average_pool);
  t.add("LpPool", lower_lp_pool);
  t.add("GlobalMaxPool", lower_global_max_pool);
  t.add("GlobalAveragePool", lower_global_average_pool);
  t.add("GlobalLpPool", lower_global_lp_pool);
  t.add("MaxUnpool", lower_max_unpool);
}

}  // namespace xrt::xla
