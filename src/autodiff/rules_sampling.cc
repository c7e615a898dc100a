// SPDX-License-Identifier: Apache-2.0
// GridSample, and ops that pick or turn around elements.
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
  // The elements at whole coordinates; zero outside.
  const auto pick = [&](Var column, Var row) {
    const auto inside = [](Var v, std::int64_t size) {
      return both(greater(v, -0.5), less(v, static_cast<double>(size) - 0.5));
    };
    const Var valid = both(inside(column, width), inside(row, height));
    const Var at = clamp(row, 0, static_cast<double>(height - 1)) * static_cast<double>(width) +
                   clamp(column, 0, static_cast<double>(width - 1));
    const Var index = expand(unsqueeze(cast(at, DType::kInt64), {1}), {image[0], image[1], points});
    const Var found = r.e.op("GatherElements", {x, index}, {{"axis", std::int64_t{2}}});
    return masked(expand(unsqueeze(valid, {1}), {image[0], image[1], points}), found);
  };
  Var y;
  if (mode == "nearest") {
    y = pick(r.e.op("Round", {px}), r.e.op("Round", {py}));
  } else {
    const Var left = floor(px);
    const Var top = floor(py);
    const Var right_part = px - left;
    const Var low_part = py - top;
    const auto weighted = [&](Var column, Var row, Var weight) {
      return pick(column, row) * unsqueeze(weight, {1});
    };
    y = weighted(left, top, (1.0 - right_part) * (1.0 - low_part)) +
        weighted(left + 1.0, top, right_part * (1.0 - low_part)) +
        weighted(left, top + 1.0, (1.0 - right_part) * low_part) +
        weighted(left + 1.0, top + 1.0, right_part * low_part);
  }
  return {reshape(y, {image[0], image[1], grid[1], grid[2]})};
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
  registry.add_expanded("LpPool", expand_lp_pool);
  registry.add("MaxUnpool", max_unpool_rule, inputs({0}));
  registry.add("ReverseSequence", reverse_sequence_rule, inputs({0}));
  registry.add("Compress", compress_rule, inputs({0}));
}

}  // namespace xrt::autodiff
