// SPDX-License-Identifier: Apache-2.0
// GridSample, deformed convolutions, regions of interest, and ops that pick or turn around
// elements.
#include <cmath>
#include <string>
#include <vector>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

Var floor(Var x) { return x.e->op("Floor", {x}); }
Var clamp(Var x, double low, double high) {
  return min(max(x, x.e->scalar(low, x.dtype)), x.e->scalar(high, x.dtype));
}

// Where the grid's coordinate lies on an axis of `size` elements.
Var position(Var g, std::int64_t size, bool align) {
  const auto n = static_cast<double>(size);
  return align ? (g + 1.0) * ((n - 1) / 2) : ((g + 1.0) * n - 1.0) * 0.5;
}

// Mirrored at `low` and `high` until it lies between them.
Var reflected(Var x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return x * 0.0;
  const Var from = abs(x - low);
  const Var turns = floor(from / span);
  const Var rest = from - turns * span;
  const Var odd = turns - floor(turns * 0.5) * 2.0;
  return where(greater(odd, 0.5), high - rest, rest + low);
}

Var on_axis(const Rule& r, Var x, std::int64_t size, bool align) {
  const std::string padding = r.node.attr_string("padding_mode", "zeros");
  const auto n = static_cast<double>(size);
  if (padding == "border") return clamp(x, 0, n - 1);
  if (padding != "reflection") return x;
  return clamp(align ? reflected(x, 0, n - 1) : reflected(x, -0.5, n - 0.5), 0, n - 1);
}

// The elements of x, [batch, channels, height * width], at whole coordinates, [batch, points]; zero
// outside.
Var picked(Var x, std::int64_t channels, std::int64_t height, std::int64_t width,
           std::int64_t points, Var column, Var row) {
  const auto inside = [](Var v, std::int64_t size) {
    return both(greater(v, -0.5), less(v, static_cast<double>(size) - 0.5));
  };
  const Var valid = both(inside(column, width), inside(row, height));
  const Var at = clamp(row, 0, static_cast<double>(height - 1)) * static_cast<double>(width) +
                 clamp(column, 0, static_cast<double>(width - 1));
  const Dims dims = {1, channels, points};
  const Var index = expand(unsqueeze(cast(at, DType::kInt64), {1}), dims);
  const Var found = x.e->op("GatherElements", {x, index}, {{"axis", std::int64_t{2}}});
  return masked(expand(unsqueeze(valid, {1}), dims), found);
}

// The same between the elements, linearly.
Var interpolated(Var x, std::int64_t channels, std::int64_t height, std::int64_t width,
                 std::int64_t points, Var px, Var py) {
  const Var left = floor(px);
  const Var top = floor(py);
  const Var right_part = px - left;
  const Var low_part = py - top;
  const auto weighted = [&](Var column, Var row, Var weight) {
    return picked(x, channels, height, width, points, column, row) * unsqueeze(weight, {1});
  };
  return weighted(left, top, (1.0 - right_part) * (1.0 - low_part)) +
         weighted(left + 1.0, top, right_part * (1.0 - low_part)) +
         weighted(left, top + 1.0, (1.0 - right_part) * low_part) +
         weighted(left + 1.0, top + 1.0, right_part * low_part);
}

// Two spatial axes, linear or nearest: the image's elements are gathered, and weighted.
std::vector<Var> expand_grid_sample(Rule& r) {
  const Dims image = r.x_dims(0);
  const Dims grid = r.x_dims(1);
  const std::string mode = r.node.attr_string("mode", "linear");
  if (image.size() != 4) r.refuse("it has other than two spatial axes");
  if (mode != "linear" && mode != "nearest" && mode != "bilinear") r.refuse("mode '" + mode + "'");
  const bool align = r.attr("align_corners", 0) != 0;
  const std::int64_t height = image[2];
  const std::int64_t width = image[3];
  const std::int64_t points = grid[1] * grid[2];
  const Var x = reshape(r.x(0), {image[0], image[1], height * width});
  const Var places = cast(reshape(r.x(1), {image[0], points, 2}), x.dtype);
  const auto coordinate = [&](std::int64_t k, std::int64_t size) {
    const Var g = squeeze(slice(places, {k}, {k + 1}, {2}), {2});
    return on_axis(r, position(g, size, align), size, align);  // [batch, points]
  };
  const Var px = coordinate(0, width);
  const Var py = coordinate(1, height);
  const auto pick = [&](Var column, Var row) {
    return picked(x, image[1], height, width, points, column, row);
  };
  Var y;
  if (mode == "nearest") {
    y = pick(r.e.op("Round", {px}), r.e.op("Round", {py}));
  } else {
    y = interpolated(x, image[1], height, width, points, px, py);
  }
  return {reshape(y, {image[0], image[1], grid[1], grid[2]})};
}

// The columns of a convolution are picked at places that are moved by the offsets; then the
// convolution is a product of matrices.
std::vector<Var> expand_deform_conv(Rule& r) {
  const Dims x = r.x_dims(0);
  const Dims w = r.x_dims(1);
  const Dims y = r.y_dims();
  if (x.size() != 4) r.refuse("it has other than two spatial axes");
  const auto attribute = [&](const char* name, std::size_t count, std::int64_t fallback) {
    Dims values = r.node.attr_ints(name);
    if (values.empty()) values.assign(count, fallback);
    return values;
  };
  const Dims strides = attribute("strides", 2, 1);
  const Dims dilations = attribute("dilations", 2, 1);
  const Dims pads = attribute("pads", 4, 0);
  const std::int64_t groups = r.attr("group", 1), parts = r.attr("offset_group", 1);
  const std::int64_t taps = w[2] * w[3], places = y[2] * y[3], points = taps * places;
  const std::int64_t channels = x[1] / parts;
  const DType dtype = r.x_type().dtype;
  // Where each tap of each place reads without offsets.
  const auto base = [&](std::size_t axis) {
    std::vector<double> values;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t place = 0; place < places; ++place) {
        const std::int64_t k = axis == 0 ? tap / w[3] : tap % w[3];
        const std::int64_t o = axis == 0 ? place / y[3] : place % y[3];
        values.push_back(static_cast<double>(o * strides[axis] - pads[axis] + k * dilations[axis]));
      }
    }
    return r.e.numbers(values, {1, points}, dtype);
  };
  const Var offsets = reshape(r.x(2), {x[0] * parts, taps, 2, places});
  const auto moved = [&](std::int64_t axis) {
    const Var own = slice(offsets, {axis}, {axis + 1}, {2});
    return reshape(own, {x[0] * parts, points}) + base(static_cast<std::size_t>(axis));
  };
  const Var image = reshape(r.x(0), {x[0] * parts, channels, x[2] * x[3]});
  Var columns = interpolated(image, channels, x[2], x[3], points, moved(1), moved(0));
  if (r.has(4)) columns = columns * reshape(r.x(4), {x[0] * parts, 1, points});
  columns = reshape(columns, {x[0], groups, x[1] / groups * taps, places});
  const Var weights = reshape(r.x(1), {groups, w[0] / groups, w[1] * taps});
  const Var made = reshape(matmul(weights, columns), y);
  return {r.has(3) ? made + reshape(r.x(3), {w[0], 1, 1}) : made};
}

// Averages of regions, which interpolate linearly: a product by a matrix along each axis.
std::vector<Var> expand_roi_align(Rule& r) {
  const Dims x = r.x_dims(0);
  const std::int64_t regions = r.x_dims(1).at(0);
  if (r.node.attr_string("mode", "avg") != "avg") r.refuse("mode 'max'");
  const std::int64_t samples = r.attr("sampling_ratio", 0);
  if (samples <= 0) r.refuse("a sampling_ratio that depends on the regions");
  const bool half =
      r.node.attr_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double scale = r.node.attr_float("spatial_scale", 1);
  const Var rois = cast(r.x(1), r.x_type().dtype);
  // [regions, bins, size]: how much of each element a bin has. `low`: the column of rois.
  const auto weights = [&](std::int64_t low, std::int64_t bins, std::int64_t size) {
    const auto edge = [&](std::int64_t k) {
      return slice(rois, {k}, {k + 1}, {1}) * scale - (half ? 0.5 : 0.0);  // [regions, 1]
    };
    const Var begin = edge(low);
    Var span = edge(low + 2) - begin;
    if (!half) span = max(span, r.e.scalar(1, span.dtype));
    std::vector<double> steps;
    for (std::int64_t i = 0; i < bins * samples; ++i) {
      steps.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(bins * samples));
    }
    const Var at = begin + span * r.e.numbers(steps, {1, bins * samples}, span.dtype);
    const Var inside = both(greater_equal(at, r.e.scalar(-1, at.dtype)),
                            less_equal(at, r.e.scalar(static_cast<double>(size), at.dtype)));
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < size; ++i) numbers.push_back(static_cast<double>(i));
    const Var clamped = unsqueeze(clamp(at, 0, static_cast<double>(size - 1)), {2});
    const Var near = 1.0 - abs(clamped - r.e.numbers(numbers, {1, 1, size}, at.dtype));
    const Var hat = masked(unsqueeze(inside, {2}), max(near, r.e.scalar(0, at.dtype)));
    return mean(reshape(hat, {regions, bins, samples, size}), {2}, false);
  };
  const std::int64_t rows = r.attr("output_height", 1), columns = r.attr("output_width", 1);
  const Var images = gather(r.x(), r.x(2), 0);  // [regions, channels, height, width]
  const Var down = unsqueeze(weights(1, rows, x[2]), {1});
  const Var across = transpose(unsqueeze(weights(0, columns, x[3]), {1}), {0, 1, 3, 2});
  return {matmul(matmul(down, images), across)};
}

// The p-norm of each window: a mean of powers, times the number of its elements.
std::vector<Var> expand_lp_pool(Rule& r) {
  Attributes attributes = r.node.attributes;
  const double p = static_cast<double>(r.attr("p", 2));
  if (r.attr("ceil_mode", 0) != 0) r.refuse("ceil_mode");
  attributes.erase("p");
  attributes["count_include_pad"] = std::int64_t{1};
  double count = 1;
  for (const std::int64_t k : r.node.attr_ints("kernel_shape")) count *= static_cast<double>(k);
  const Var mean = r.e.op("AveragePool", {pow(abs(r.x()), p)}, std::move(attributes));
  return {pow(mean * count, 1 / p)};
}

void max_unpool_rule(Rule& r) {
  const Var all = reshape(r.dy(), {-1});
  r.give(0, r.e.op("Gather", {all, r.x(1)}, {{"axis", std::int64_t{0}}}));
}

void reverse_sequence_rule(Rule& r) {
  r.give(0, r.e.op("ReverseSequence", {r.dy(), r.x(1)}, r.node.attributes));
}

// What was selected along the axis (or of all elements) goes back to its place.
void compress_rule(Rule& r) {
  const Dims dims = r.x_dims();
  const bool flat = !r.node.has("axis");
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t axis = flat ? 0 : r.axis("axis", 0, rank);
  Dims perm = range(0, rank);
  std::swap(perm[0], perm[static_cast<std::size_t>(axis)]);
  Dims shape;
  for (const std::int64_t a : perm) shape.push_back(dims[static_cast<std::size_t>(a)]);
  if (flat) shape = {element_count(dims)};
  const Var dy = r.dy();
  const Var chosen = transpose(r.e.op_to(DType::kInt64, "NonZero", {r.x(1)}), {1, 0});
  const Var zeros = expand(r.e.scalar(0, dy.dtype), shape);
  const Var g = r.e.op("ScatterND", {zeros, chosen, flat ? dy : transpose(dy, perm)});
  r.give(0, flat ? reshape(g, dims) : transpose(g, perm));
}

}  // namespace

void register_sampling(RuleRegistry& registry) {
  registry.add_expanded("GridSample", expand_grid_sample);
  registry.add_expanded("DeformConv", expand_deform_conv);
  registry.add_expanded("RoiAlign", expand_roi_align, inputs({0}));
  registry.add_expanded("LpPool", expand_lp_pool);
  registry.add("MaxUnpool", max_unpool_rule, inputs({0}));
  registry.add("ReverseSequence", reverse_sequence_rule, inputs({0}));
  registry.add("Compress", compress_rule, inputs({0}));
}

}  // namespace xrt::autodiff
