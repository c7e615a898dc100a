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
  const std::string padding = need_string(r.node, "padding_mode");
  const auto n = static_cast<double>(size);
  if (padding == "border") return clamp(x, 0, n - 1);
  if (padding != "reflection") return x;
  return clamp(align ? reflected(x, 0, n - 1) : reflected(x, -0.5, n - 0.5), 0, n - 1);
}

struct Image {
  Var x;  // [batch, channels, all elements]
  std::int64_t channels = 0;
  Dims sizes;
  std::int64_t points = 0;
};

// The elements at whole places, [batch, points] per axis; zero outside.
Var picked(const Image& image, const std::vector<Var>& places) {
  Var at, valid;
  for (std::size_t a = 0; a < places.size(); ++a) {
    const auto last = static_cast<double>(image.sizes[a] - 1);
    const Var inside = both(greater(places[a], -0.5), less(places[a], last + 0.5));
    const Var own = clamp(places[a], 0, last);
    at = a == 0 ? own : at * static_cast<double>(image.sizes[a]) + own;
    valid = a == 0 ? inside : both(valid, inside);
  }
  const Dims dims = {1, image.channels, image.points};
  const Var index = expand(unsqueeze(cast(at, DType::kInt64), {1}), dims);
  const Var found = at.e->op("GatherElements", {image.x, index}, {{"axis", std::int64_t{2}}});
  return masked(expand(unsqueeze(valid, {1}), dims), found);
}

struct Tap {
  Var place, weight;
};

std::vector<Tap> linear_taps(Var at) {
  const Var low = floor(at), part = at - low;
  return {{low, 1.0 - part}, {low + 1.0, part}};
}

// R. Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981, with a = -0.75.
std::vector<Tap> cubic_taps(Var at) {
  constexpr double kA = -0.75;
  const Var low = floor(at), part = at - low;
  const auto near = [](Var d) { return (d * (kA + 2) - (kA + 3)) * d * d + 1.0; };
  const auto far = [](Var d) { return ((d * kA - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {{low - 1.0, far(part + 1.0)},
          {low, near(part)},
          {low + 1.0, near(1.0 - part)},
          {low + 2.0, far(2.0 - part)}};
}

// The sum over all combinations of the axes' taps.
Var interpolated(const Image& image, const std::vector<std::vector<Tap>>& axes) {
  Var total;
  std::vector<std::size_t> at(axes.size(), 0);
  for (bool more = true; more;) {
    std::vector<Var> places;
    Var weight;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const Tap& tap = axes[a][at[a]];
      places.push_back(tap.place);
      weight = a == 0 ? tap.weight : weight * tap.weight;
    }
    const Var part = picked(image, places) * unsqueeze(weight, {1});
    total = total.valid() ? total + part : part;
    more = false;
    for (std::size_t a = axes.size(); a-- > 0 && !more;) {
      more = ++at[a] < axes[a].size();
      if (!more) at[a] = 0;
    }
  }
  return total;
}

// The image's elements are gathered, and weighted.
std::vector<Var> expand_grid_sample(Rule& r) {
  const Dims dims = r.x_dims(0);
  const Dims grid = r.x_dims(1);
  const std::string mode = need_string(r.node, "mode");
  const bool align = r.attr("align_corners") != 0;
  const auto axes = static_cast<std::int64_t>(dims.size()) - 2;
  Image image;
  image.channels = dims[1];
  image.sizes.assign(dims.begin() + 2, dims.end());
  image.points = element_count(Dims(grid.begin() + 1, grid.end() - 1));
  image.x = reshape(r.x(0), {dims[0], dims[1], element_count(image.sizes)});
  const Var places = cast(reshape(r.x(1), {dims[0], image.points, axes}), image.x.dtype);
  std::vector<std::vector<Tap>> taps;
  std::vector<Var> nearest;
  for (std::int64_t a = 0; a < axes; ++a) {
    const std::int64_t size = image.sizes[static_cast<std::size_t>(a)];
    const std::int64_t k = axes - 1 - a;  // the grid has the last axis first
    const Var g = squeeze(slice(places, {k}, {k + 1}, {2}), {2});
    const Var at = position(g, size, align);  // [batch, points]
    if (mode == "cubic") {
      // Not the place is brought inside, but each element that it reads.
      taps.push_back(cubic_taps(at));
      for (Tap& tap : taps.back()) tap.place = on_axis(r, tap.place, size, align);
    } else if (mode == "nearest") {
      nearest.push_back(r.e.op("Round", {on_axis(r, at, size, align)}));
    } else {
      taps.push_back(linear_taps(on_axis(r, at, size, align)));
    }
  }
  const Var y = mode == "nearest" ? picked(image, nearest) : interpolated(image, taps);
  return {reshape(y, r.y_dims())};
}

// The columns of a convolution are picked at places that are moved by the offsets; then the
// convolution is a product of matrices.
std::vector<Var> expand_deform_conv(Rule& r) {
  const Dims x = r.x_dims(0);
  const Dims w = r.x_dims(1);
  const Dims y = r.y_dims();
  if (x.size() != 4) r.refuse("it has other than two spatial axes");
  const Dims strides = r.node.attr_ints("strides");
  const Dims dilations = r.node.attr_ints("dilations");
  const Dims pads = r.node.attr_ints("pads");
  const std::int64_t groups = r.attr("group"), parts = r.attr("offset_group");
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
  const Image image{
      reshape(r.x(0), {x[0] * parts, channels, x[2] * x[3]}), channels, {x[2], x[3]}, points};
  Var columns = interpolated(image, {linear_taps(moved(0)), linear_taps(moved(1))});
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
  if (need_string(r.node, "mode") != "avg") r.refuse("mode 'max'");
  const std::int64_t samples = r.attr("sampling_ratio");
  if (samples <= 0) r.refuse("a sampling_ratio that depends on the regions");
  const bool half = need_string(r.node, "coordinate_transformation_mode") == "half_pixel";
  const double scale = need_float(r.node, "spatial_scale");
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
  const std::int64_t rows = r.attr("output_height"), columns = r.attr("output_width");
  const Var images = gather(r.x(), r.x(2), 0);  // [regions, channels, height, width]
  const Var down = unsqueeze(weights(1, rows, x[2]), {1});
  const Var across = transpose(unsqueeze(weights(0, columns, x[3]), {1}), {0, 1, 3, 2});
  return {matmul(matmul(down, images), across)};
}

// The p-norm of each window: a mean of powers, times the number of its elements.
std::vector<Var> expand_lp_pool(Rule& r) {
  Attributes attributes = r.node.attributes;
  const double p = static_cast<double>(r.attr("p"));
  if (r.attr("ceil_mode") != 0) r.refuse("ceil_mode");
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
  const std::int64_t axis = flat ? 0 : r.attr("axis");
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
