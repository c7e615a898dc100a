// SPDX-License-Identifier: Apache-2.0
// Reading images between their pixels: GridSample, RoiAlign, DeformConv.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engines/xla/lowerings/places.h"
#include "engines/xla/lowerings/take.h"
#include "engines/xla/lowerings/window.h"

namespace xrt::xla {

namespace {

// An element beside a position along one axis: its place, and how much it counts.
struct Tap {
  Hlo place;   // integers as floats
  Hlo weight;  // invalid: 1
};

Hlo number(HloBuilder& b, double value, const Hlo& like) {
  return b.splat(value, like.dtype, like.dims);
}

Hlo clamp(HloBuilder& b, const Hlo& x, double low, double high) {
  return b.maximum(b.minimum(x, number(b, high, x)), number(b, low, x));
}

// Mirrors positions into [low, high].
Hlo reflect(HloBuilder& b, const Hlo& x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return number(b, low, x);
  const auto fold = [&](const Hlo& distance, bool below) {
    const Hlo times = b.unary("floor", b.div(distance, number(b, span, x)));
    const Hlo rest = b.sub(distance, b.mul(times, number(b, span, x)));
    const Hlo odd = b.compare("NE", b.binary("remainder", times, number(b, 2, x)), b.zeros_like(x));
    const Hlo from_low = b.add(number(b, low, x), rest);
    const Hlo from_high = b.sub(number(b, high, x), rest);
    return below ? b.select(odd, from_high, from_low) : b.select(odd, from_low, from_high);
  };
  const Hlo under = fold(b.sub(number(b, low, x), x), true);
  const Hlo over = fold(b.sub(x, number(b, high, x)), false);
  const Hlo inside = b.select(b.compare("GT", x, number(b, high, x)), over, x);
  return b.select(b.compare("LT", x, number(b, low, x)), under, inside);
}

std::vector<Tap> taps_at(HloBuilder& b, const Hlo& position, const std::string& mode) {
  if (mode == "nearest") return {{b.unary("round_nearest_even", position), {}}};
  const Hlo base = b.unary("floor", position);
  const Hlo t = b.sub(position, base);
  const Hlo one = number(b, 1, t);
  if (mode == "linear") return {{base, b.sub(one, t)}, {b.add(base, one), t}};
  std::vector<Tap> taps;
  const double a = -0.75;
  for (int i = -1; i <= 2; ++i) {
    const Hlo distance = b.unary("abs", b.sub(t, number(b, i, t)));
    const auto polynomial = [&](double c3, double c2, double c1, double c0) {
      Hlo sum = number(b, c3, t);
      for (const double coefficient : {c2, c1, c0}) {
        sum = b.add(b.mul(sum, distance), number(b, coefficient, t));
      }
      return sum;
    };
    const bool near = i == 0 || i == 1;
    taps.push_back({b.add(base, number(b, i, t)), near ? polynomial(a + 2, -(a + 3), 0, 1)
                                                       : polynomial(a, -5 * a, 8 * a, -4 * a)});
  }
  return taps;
}

// Sum over all combinations of one tap per axis. `image` has its channels last and `batch` says
// which image of the batch each position reads; result [positions…, C].
Hlo gather_taps(HloBuilder& b, const Hlo& image, const Hlo& batch,
                const std::vector<std::vector<Tap>>& taps, const std::string& padding,
                bool align_corners) {
  Hlo total;
  std::vector<std::size_t> choice(taps.size(), 0);
  const auto channel_axis = batch.rank();
  Dims column = batch.dims;
  column.push_back(1);
  while (true) {
    Hlos coordinates{b.reshape(batch, column)};
    Hlo weight;
    const auto times = [&](const Hlo& factor) {
      if (factor.valid()) weight = weight.valid() ? b.mul(weight, factor) : factor;
    };
    for (std::size_t i = 0; i < taps.size(); ++i) {
      const Tap& tap = taps[i][choice[i]];
      const auto size = static_cast<double>(image.dims[i + 1]);
      times(tap.weight);
      Hlo place = tap.place;
      if (padding == "zeros") {
        const Hlo inside = b.binary("and", b.compare("GE", place, b.zeros_like(place)),
                                    b.compare("LE", place, number(b, size - 1, place)));
        times(b.convert(inside, place.dtype));
      } else if (padding == "reflection") {
        place =
            align_corners ? reflect(b, place, 0, size - 1) : reflect(b, place, -0.5, size - 0.5);
      }
      const Hlo index = b.convert(clamp(b, place, 0, size - 1), DType::kInt64);
      coordinates.push_back(b.reshape(index, column));
    }
    Hlo value = take_at(b, image, b.concatenate(coordinates, channel_axis));
    if (weight.valid()) {
      value = b.mul(value, b.broadcast_in_dim(weight, value.dims, range_dims(0, channel_axis)));
    }
    total = total.valid() ? b.add(total, value) : value;
    std::size_t i = taps.size();
    while (i > 0 && ++choice[i - 1] == taps[i - 1].size()) choice[--i] = 0;
    if (i == 0) return total;
  }
}

void lower_grid_sample(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const DType dtype = is_integer(result) ? DType::kFloat32 : compute_dtype(result);
  const Hlo image = b.convert(c.in_last(0), dtype);
  const Hlo grid = b.convert(c.in(1), dtype);
  const std::int64_t spatial = image.rank() - 2;
  c.need(grid.rank() == image.rank() && grid.dims.back() == spatial, "the grid's shape");
  const std::string mode = need_string(c.node, "mode");
  const std::string padding = need_string(c.node, "padding_mode");
  const bool align = c.attr("align_corners") != 0;
  c.need(mode == "nearest" || mode == "linear" || mode == "cubic",
         fmt::format("no mode '{}'", mode));
  const Dims positions(grid.dims.begin(), grid.dims.end() - 1);
  std::vector<std::vector<Tap>> taps;
  for (std::int64_t i = 0; i < spatial; ++i) {
    const auto size = static_cast<double>(image.dims[at(i + 1)]);
    const std::int64_t column = spatial - 1 - i;  // the grid names x before y before z
    Hlo g = b.reshape(b.slice_axis(grid, grid.rank() - 1, column, column + 1), positions);
    g = b.add(g, number(b, 1, g));
    Hlo place = align ? b.mul(g, number(b, (size - 1) / 2, g))
                      : b.sub(b.mul(g, number(b, size / 2, g)), number(b, 0.5, g));
    if (mode == "nearest") place = b.unary("round_nearest_even", place);
    const double low = align ? 0 : -0.5;
    const double high = align ? size - 1 : size - 0.5;
    if (padding == "border" && mode != "cubic") {  // of a cubic each element is clamped
      const Hlo outside = b.binary("or", b.compare("LT", place, number(b, low, place)),
                                   b.compare("GT", place, number(b, high, place)));
      place = b.select(outside, clamp(b, place, 0, size - 1), place);
    } else if (padding == "reflection") {
      place = reflect(b, place, low, high);
    }
    taps.push_back(taps_at(b, place, mode));
  }
  const Hlo batch = b.iota(DType::kInt64, positions, 0);
  c.out_last(0, cast(b, gather_taps(b, image, batch, taps, padding, align), result));
}

// --- RoiAlign -----------------------------------------------------------------------------------

// A bilinear sample's two rows (or columns): past one pixel outside it counts nothing.
struct Line {
  Hlo low, high, low_weight, high_weight;
};

Line roi_line(HloBuilder& b, const Hlo& position, double size) {
  const Hlo outside = b.binary("or", b.compare("LT", position, number(b, -1, position)),
                               b.compare("GT", position, number(b, size, position)));
  const Hlo inside_image = clamp(b, position, 0, size - 1);
  const Hlo low = b.unary("floor", inside_image);
  const Hlo high = b.minimum(b.add(low, number(b, 1, low)), number(b, size - 1, low));
  const Hlo t = b.sub(inside_image, low);
  const Hlo zero = b.zeros_like(t);
  return {low, high, b.select(outside, zero, b.sub(number(b, 1, t), t)),
          b.select(outside, zero, t)};
}

void lower_roi_align(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo image = b.convert(c.in_last(0), compute_dtype(result));
  const Hlo rois = b.convert(c.in(1), image.dtype);
  const std::int64_t count = rois.dims[0];
  const std::int64_t height = c.attr("output_height");
  const std::int64_t width = c.attr("output_width");
  const std::int64_t samples = c.attr("sampling_ratio");
  c.need(samples > 0, "the number of samples depends on the regions");
  const bool half = need_string(c.node, "coordinate_transformation_mode") == "half_pixel";
  const double scale = need_float(c.node, "spatial_scale");
  // Positions of the samples along one axis: [count, bins · samples].
  const auto positions = [&](std::int64_t first, std::int64_t last, std::int64_t bins) {
    const auto corner = [&](std::int64_t i) {
      const Hlo x = b.mul(b.slice_axis(rois, 1, i, i + 1), b.splat(scale, rois.dtype, {count, 1}));
      return b.reshape(half ? b.sub(x, number(b, 0.5, x)) : x, {count});
    };
    const Hlo start = corner(first);
    Hlo size = b.sub(corner(last), start);
    if (!half) size = b.maximum(size, number(b, 1, size));
    const Dims dims{count, bins * samples};
    const Hlo step = b.binary_scalar("divide", size, static_cast<double>(bins * samples));
    const Hlo index = b.binary_scalar("add", b.iota(rois.dtype, dims, 1), 0.5);
    return b.add(b.broadcast_in_dim(start, dims, {0}),
                 b.mul(index, b.broadcast_in_dim(step, dims, {0})));
  };
  const Line rows = roi_line(b, positions(1, 3, height), static_cast<double>(image.dims[1]));
  const Line columns = roi_line(b, positions(0, 2, width), static_cast<double>(image.dims[2]));
  const Dims dims{count, height * samples, width * samples};
  Dims column = dims;
  column.push_back(1);
  const Hlo batch = b.broadcast_in_dim(b.convert(c.in(2), DType::kInt64), dims, {0});
  const bool maximum = need_string(c.node, "mode") == "max";
  Hlo total;
  for (const bool low_row : {true, false}) {
    for (const bool low_column : {true, false}) {
      const auto place = [&](const Hlo& line, std::int64_t axis) {
        return b.reshape(b.broadcast_in_dim(b.convert(line, DType::kInt64), dims, {0, axis}),
                         column);
      };
      const Hlo value =
          take_at(b, image,
                  b.concatenate({b.reshape(batch, column), place(low_row ? rows.low : rows.high, 1),
                                 place(low_column ? columns.low : columns.high, 2)},
                                3));
      const Hlo row_weight = low_row ? rows.low_weight : rows.high_weight;
      const Hlo column_weight = low_column ? columns.low_weight : columns.high_weight;
      const Hlo weight = b.mul(b.broadcast_in_dim(row_weight, dims, {0, 1}),
                               b.broadcast_in_dim(column_weight, dims, {0, 2}));
      const Hlo weighted = b.mul(value, b.broadcast_in_dim(weight, value.dims, {0, 1, 2}));
      if (!total.valid()) {
        total = weighted;
      } else {
        // The maximum is that of the weighted neighbours, not of the interpolated samples.
        total = maximum ? b.maximum(total, weighted) : b.add(total, weighted);
      }
    }
  }
  const std::int64_t channels = image.dims[3];
  const Hlo split = b.reshape(total, {count, height, samples, width, samples, channels});
  Hlo y = b.reduce(split, maximum ? "maximum" : "add", {2, 4});
  if (!maximum) y = b.binary_scalar("divide", y, static_cast<double>(samples * samples));
  c.out_last(0, b.convert(y, result));
}

// --- DeformConv ---------------------------------------------------------------------------------

// Operands: x, w, offsets, bias, mask. Every position of the window reads its own displaced image;
// one matrix product per position.
void lower_deform_conv(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const DType dtype = compute_dtype(result);
  const Dims dims = c.dims(0);
  const Dims kernel_dims = c.dims(1);
  c.need(dims.size() == 4, "images of two spatial axes only");
  const std::int64_t groups = c.attr("group");
  const std::int64_t offset_groups = c.attr("offset_group");
  const Window w = read_window(c, {dims[2], dims[3]}, {kernel_dims[2], kernel_dims[3]});
  const Hlo image = b.convert(c.in_last(0), dtype);
  const Hlo offsets = b.convert(c.in(2), dtype);
  const Hlo mask = c.has(4) ? b.convert(c.in(4), dtype) : Hlo{};
  const Hlo kernel = b.transpose(b.convert(c.in(1), dtype), {2, 3, 1, 0});
  const Dims out{dims[0], w.out[0], w.out[1]};
  const std::int64_t window = w.kernel[0] * w.kernel[1];
  const std::int64_t each = dims[1] / offset_groups;
  const std::int64_t outputs = kernel_dims[0];
  const Hlo batch = b.iota(DType::kInt64, out, 0);
  Hlo total;
  for (std::int64_t k = 0; k < window; ++k) {
    const std::int64_t place[2] = {k / w.kernel[1], k % w.kernel[1]};
    Hlos parts;
    for (std::int64_t g = 0; g < offset_groups; ++g) {
      std::vector<std::vector<Tap>> taps;
      for (std::int64_t i = 0; i < 2; ++i) {
        const std::int64_t channel = (g * window + k) * 2 + i;
        const Hlo offset = b.reshape(b.slice_axis(offsets, 1, channel, channel + 1), out);
        const Hlo step = b.binary_scalar("multiply", b.iota(dtype, out, i + 1),
                                         static_cast<double>(w.strides[at(i)]));
        const auto base = static_cast<double>(place[i] * w.dilations[at(i)] - w.pads[at(i)].first);
        taps.push_back(taps_at(b, b.add(offset, b.binary_scalar("add", step, base)), "linear"));
      }
      Hlo part = gather_taps(b, b.slice_axis(image, 3, g * each, (g + 1) * each), batch, taps,
                             "zeros", false);
      if (mask.valid()) {
        const std::int64_t channel = g * window + k;
        const Hlo factor = b.reshape(b.slice_axis(mask, 1, channel, channel + 1), out);
        part = b.mul(part, b.broadcast_in_dim(factor, part.dims, {0, 1, 2}));
      }
      parts.push_back(part);
    }
    const Hlo displaced = b.concatenate(parts, 3);
    const Hlo weights = b.reshape(b.slice(kernel, {place[0], place[1], 0, 0},
                                          {place[0] + 1, place[1] + 1, kernel_dims[1], outputs}),
                                  {kernel_dims[1], outputs});
    Hlos sums;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t in_each = dims[1] / groups;
      const std::int64_t out_each = outputs / groups;
      sums.push_back(b.dot_general(b.slice_axis(displaced, 3, g * in_each, (g + 1) * in_each),
                                   b.slice_axis(weights, 1, g * out_each, (g + 1) * out_each), {},
                                   {}, {3}, {0}, dtype));
    }
    const Hlo sum = b.concatenate(sums, 3);
    total = total.valid() ? b.add(total, sum) : sum;
  }
  if (c.has(3)) {
    total = b.add(total, b.broadcast_in_dim(b.convert(c.in(3), dtype), total.dims, {3}));
  }
  c.out_last(0, b.convert(total, result));
}

}  // namespace

void register_sampling(LoweringTable& t) {
  t.add("GridSample", lower_grid_sample);
  t.add("RoiAlign", lower_roi_align);
  t.add("DeformConv", lower_deform_conv);
}

}  // namespace xrt::xla
