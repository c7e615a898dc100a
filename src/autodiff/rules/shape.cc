// SPDX-License-Identifier: Apache-2.0
// Ops that move elements: shapes, joins, cuts, padding, repetition.
#include <algorithm>
#include <limits>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

void reshape_rule(Rule& r) { r.give(0, r.reshape_as(r.dy(), r.x())); }

void transpose_rule(Rule& r) {
  r.give(0, transpose(r.dy(), inverse_permutation(r.node.attr_ints("perm"))));
}

void expand_rule(Rule& r) { r.give_broadcast(0, r.dy()); }

void concat_rule(Rule& r) {
  const std::int64_t axis = r.attr("axis");
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < r.input_count(); ++i) {
    const std::int64_t end = begin + r.x_dims(i)[axis];
    if (r.needs(i)) r.give(i, slice(r.dy(), {begin}, {end}, {axis}));
    begin = end;
  }
}

void split_rule(Rule& r) {
  const std::int64_t axis = r.attr("axis");
  std::vector<Var> parts;
  for (std::size_t k = 0; k < r.node.outputs.size(); ++k) {
    if (!r.node.outputs[k].valid()) r.refuse("an output is left out");
    parts.push_back(r.dy(k));
  }
  r.give(0, concat(parts, axis));
}

void slice_rule(Rule& r) {
  const Dims dims = r.x_dims();
  const Dims starts = r.integers(1, "starts");
  const Dims axes =
      r.has(3) ? r.integers(3, "axes") : range(0, static_cast<std::int64_t>(starts.size()));
  const Dims steps = r.has(4) ? r.integers(4, "steps") : Dims(starts.size(), 1);
  const Dims out = r.y_dims();
  Var g = r.dy();
  Dims before(dims.size(), 0);
  Dims behind(dims.size(), 0);
  std::vector<std::pair<std::int64_t, Dims>> scattered;  // axes with steps: where elements go
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i];
    const std::int64_t size = dims[axis];
    std::int64_t start = starts[i] < 0 ? starts[i] + size : starts[i];
    start = std::clamp<std::int64_t>(start, 0, steps[i] < 0 ? size - 1 : size);
    if (steps[i] == 1) {
      before[axis] = start;
      behind[axis] = size - start - out[axis];
      continue;
    }
    // Row o of the result is row start + o·step; others get the row of zeros behind the result.
    Dims source(static_cast<std::size_t>(size), out[axis]);
    for (std::int64_t o = 0; o < out[axis]; ++o) source.at(start + o * steps[i]) = o;
    scattered.emplace_back(axis, std::move(source));
  }
  for (const auto& [axis, source] : scattered) {
    Dims zero(dims.size(), 0);
    Dims one = zero;
    one[axis] = 1;
    g = gather(pad(g, zero, one), r.e.ints(source), axis);
  }
  r.give(0, pad(g, before, behind));
}

void pad_rule(Rule& r) {
  const std::string mode = need_string(r.node, "mode");
  const Dims dims = r.x_dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const Dims pads = r.integers(1, "pads");
  const Dims axes = r.has(3) ? r.integers(3, "axes") : range(0, rank);
  const std::size_t n = axes.size();
  Var g = r.dy();
  if (mode == "constant") {
    Dims before(dims.size(), 0);
    Dims behind(dims.size(), 0);
    for (std::size_t i = 0; i < n; ++i) {
      before[axes[i]] = -pads[i];
      behind[axes[i]] = -pads[i + n];
    }
    if (r.needs(0)) r.give(0, pad(g, before, behind));
    if (r.needs(2)) {
      // What is not of x is of the value.
      const Var all = sum(g, range(0, rank), false);
      const Var own = sum(pad(g, before, behind), range(0, rank), false);
      r.give(2, r.reshape_as(all - own, r.x(2)));
    }
    return;
  }
  if (r.needs(2)) r.give(2, r.zeros_like(r.x(2)));
  if (!r.needs(0)) return;
  // Along each axis every element of the result is a copy of one of x: a product with the matrix
  // that says of which.
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t axis = axes[i];
    const std::int64_t size = dims[axis];
    const std::int64_t total = size + pads[i] + pads[i + n];
    if (total == size && pads[i] == 0) continue;
    // What negative pads cut off is gone before anything is repeated.
    const std::int64_t cut = std::max<std::int64_t>(-pads[i], 0);
    const std::int64_t left = size - cut - std::max<std::int64_t>(-pads[i + n], 0);
    std::vector<double> matrix(static_cast<std::size_t>(total * size));
    for (std::int64_t o = 0; o < total; ++o) {
      std::int64_t at = o - std::max<std::int64_t>(pads[i], 0);
      if (mode == "edge") {
        at = std::clamp<std::int64_t>(at, 0, left - 1);
      } else if (mode == "wrap") {
        at = (at % left + left) % left;
      } else if (left > 1) {
        const std::int64_t period = 2 * (left - 1);
        at = (at % period + period) % period;
        if (at >= left) at = period - at;
      } else {
        at = 0;
      }
      matrix[static_cast<std::size_t>(o * size + at + cut)] = 1;
    }
    Dims perm = range(0, rank);
    std::swap(perm[axis], perm[rank - 1]);
    const Var m = r.e.numbers(matrix, {total, size}, g.dtype);
    g = transpose(matmul(transpose(g, perm), m), perm);
  }
  r.give(0, g);
}

void tile_rule(Rule& r) {
  const Dims repeats = r.integers(1, "repeats");
  const Dims dims = r.x_dims();
  Dims split;
  Dims axes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(repeats[i]);
    split.push_back(dims[i]);
  }
  r.give(0, sum(reshape(r.dy(), split), axes, false));
}

void depth_to_space_rule(Rule& r) {
  const Dims x = r.x_dims();
  const std::int64_t b = r.attr("blocksize");
  const std::int64_t c = x[1] / (b * b);
  const bool crd = need_string(r.node, "mode") == "CRD";
  // From [N, c, H, b, W, b] back to the order of the mode.
  const Var g = reshape(r.dy(), {x[0], c, x[2], b, x[3], b});
  r.give(0, reshape(transpose(g, crd ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4}), x));
}

void space_to_depth_rule(Rule& r) {
  const Dims x = r.x_dims();
  const std::int64_t b = r.attr("blocksize");
  const bool crd = need_string(r.node, "mode") == "CRD";
  const Dims blocks =
      crd ? Dims{x[0], x[1], b, b, x[2] / b, x[3] / b} : Dims{x[0], b, b, x[1], x[2] / b, x[3] / b};
  const Dims perm = crd ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2};
  r.give(0, reshape(transpose(reshape(r.dy(), blocks), perm), x));
}

void trilu_rule(Rule& r) {
  std::vector<Var> operands{r.dy()};
  if (r.has(1)) operands.push_back(r.x(1));
  r.give(0, r.e.op("Trilu", operands, {{"upper", r.attr("upper")}}));
}

}  // namespace

void register_shape(RuleRegistry& registry) {
  constexpr std::uint64_t kFirst = inputs({0});
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}) {
    registry.add(op, reshape_rule, kFirst);
  }
  registry.add("Transpose", transpose_rule);
  registry.add("Expand", expand_rule, kFirst);
  registry.add("Concat", concat_rule);
  registry.add("Split", split_rule, kFirst);
  registry.add("Slice", slice_rule, kFirst);
  registry.add("Pad", pad_rule, inputs({0, 2}));
  registry.add("Tile", tile_rule, kFirst);
  registry.add("DepthToSpace", depth_to_space_rule);
  registry.add("SpaceToDepth", space_to_depth_rule);
  registry.add("Trilu", trilu_rule, kFirst);
}

}  // namespace xrt::autodiff
