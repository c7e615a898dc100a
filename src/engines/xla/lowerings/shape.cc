// SPDX-License-Identifier: Apache-2.0
// Ops that move or repeat elements without looking at them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

void lower_reshape(NodeContext& c) {
  Dims target = c.integers(1, "the shape");
  const Dims from = c.dims(0);
  const bool allow_zero = c.attr("allowzero") != 0;
  std::int64_t known = 1;
  std::int64_t unknown = -1;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !allow_zero) {
      c.need(i < from.size(), "a 0 in the shape copies no dimension");
      target[i] = from[i];
    }
    if (target[i] == -1) {
      c.need(unknown < 0, "two -1 in the shape");
      unknown = static_cast<std::int64_t>(i);
    } else {
      c.need(target[i] >= 0, "a negative size");
      known *= target[i];
    }
  }
  const std::int64_t total = element_count(from);
  if (unknown >= 0) {
    c.need(known > 0 && total % known == 0, "the shape does not fit");
    target[at(unknown)] = total / known;
  }
  c.need(element_count(target) == total, "the shape does not fit");
  c.out(c.b.reshape(c.in(0), target));
}

void lower_flatten(NodeContext& c) {
  const Dims from = c.dims(0);
  const std::int64_t axis = c.attr("axis");
  c.need(axis >= 0 && axis <= static_cast<std::int64_t>(from.size()), "the axis");
  const auto middle = from.begin() + axis;
  c.out(c.b.reshape(c.in(0), {element_count(Dims(from.begin(), middle)),
                              element_count(Dims(middle, from.end()))}));
}

void lower_squeeze(NodeContext& c) {
  const Dims from = c.dims(0);
  Dims ones;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1) ones.push_back(static_cast<std::int64_t>(i));
  }
  const Dims axes = c.axes_operand(1, c.rank(0), ones);
  Dims target;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i))) {
      c.need(from[i] == 1, "a squeezed axis is not of size 1");
    } else {
      target.push_back(from[i]);
    }
  }
  c.out(c.b.reshape(c.in(0), target));
}

void lower_unsqueeze(NodeContext& c) {
  const Dims from = c.dims(0);
  const Dims listed = c.integers(1, "the operand of axes");
  const Dims axes = c.axes(listed, static_cast<std::int64_t>(from.size() + listed.size()));
  Dims target = from;
  for (const std::int64_t axis : axes) target.insert(target.begin() + axis, 1);
  c.out(c.b.reshape(c.in(0), target));
}

void lower_transpose(NodeContext& c) {
  const std::int64_t rank = c.rank(0);
  const Dims permutation = need_ints(c.node, "perm");
  if (c.is_last(0)) {
    // One transposition from the stored order, often none at all.
    const Dims stored = channels_last_permutation(rank);
    Dims direct;
    for (const std::int64_t axis : permutation) {
      direct.push_back(std::find(stored.begin(), stored.end(), axis) - stored.begin());
    }
    c.out(c.b.transpose(c.in_last(0), direct));
    return;
  }
  if (rank >= 3 && permutation == channels_first_permutation(rank)) {
    // The operand is the result with its channels last.
    c.out_last(0, c.in(0));
    return;
  }
  c.out(c.b.transpose(c.in(0), permutation));
}

void lower_expand(NodeContext& c) {
  const Dims shape = c.integers(1, "the shape");
  const Dims from = c.dims(0);
  Dims target(std::max(shape.size(), from.size()), 1);
  std::copy(shape.begin(), shape.end(), target.end() - static_cast<std::ptrdiff_t>(shape.size()));
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::int64_t& dim = target[target.size() - from.size() + i];
    c.need(dim == 1 || from[i] == 1 || dim == from[i], "the shape does not fit");
    if (from[i] != 1) dim = from[i];
  }
  c.out(c.b.broadcast_to(c.in(0), target));
}

void lower_tile(NodeContext& c) {
  const Dims repeats = c.integers(1, "the operand of repeats");
  const Dims from = c.dims(0);
  c.need(repeats.size() == from.size(), "one count per axis is needed");
  // [a, b] → [1, a, 1, b] → [r, a, s, b] → [r·a, s·b]
  Dims wide;
  Dims map;
  Dims target;
  for (std::size_t i = 0; i < from.size(); ++i) {
    c.need(repeats[i] >= 0, "a negative count");
    wide.push_back(repeats[i]);
    map.push_back(static_cast<std::int64_t>(wide.size()));
    wide.push_back(from[i]);
    target.push_back(repeats[i] * from[i]);
  }
  c.out(c.b.reshape(c.b.broadcast_in_dim(c.in(0), wide, map), target));
}

void lower_concat(NodeContext& c) {
  const std::int64_t rank = c.rank(0);
  const std::int64_t axis = c.axis(c.attr("axis"), rank);
  bool last = rank >= 3;
  for (std::size_t i = 0; i < c.input_count(); ++i) last = last && c.is_last(i);
  Hlos parts;
  for (std::size_t i = 0; i < c.input_count(); ++i) parts.push_back(last ? c.in_last(i) : c.in(i));
  if (!last) {
    c.out(c.b.concatenate(parts, axis));
    return;
  }
  const Dims stored = channels_last_permutation(rank);
  c.out_last(
      0, c.b.concatenate(parts, std::find(stored.begin(), stored.end(), axis) - stored.begin()));
}

void lower_split(NodeContext& c) {
  const Dims from = c.dims(0);
  const std::int64_t axis = c.attr("axis");
  const std::int64_t size = from[at(axis)];
  const auto count = static_cast<std::int64_t>(c.node.outputs.size());
  Dims parts;
  if (c.has(1)) {
    parts = c.integers(1, "the operand of split");
  } else {
    const std::int64_t each = (size + count - 1) / count;
    for (std::int64_t k = 0; k < count; ++k) {
      parts.push_back(std::clamp<std::int64_t>(size - k * each, 0, each));
    }
  }
  c.need(static_cast<std::int64_t>(parts.size()) == count, "the number of parts");
  const bool last = c.is_last(0);
  const Hlo x = last ? c.in_last(0) : c.in(0);
  const Dims stored = channels_last_permutation(c.rank(0));
  const std::int64_t where =
      last ? std::find(stored.begin(), stored.end(), axis) - stored.begin() : axis;
  std::int64_t start = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    c.need(parts[k] >= 0 && start + parts[k] <= size, "the sizes of the parts");
    const Hlo part = c.b.slice_axis(x, where, start, start + parts[k]);
    last ? c.out_last(k, part) : c.out(k, part);
    start += parts[k];
  }
}

void lower_slice(NodeContext& c) {
  const Dims from = c.dims(0);
  const auto rank = static_cast<std::int64_t>(from.size());
  const Dims starts = c.integers(1, "the operand of starts");
  const Dims ends = c.integers(2, "the operand of ends");
  Dims axes = range_dims(0, static_cast<std::int64_t>(starts.size()));
  if (c.has(3)) axes = c.integers(3, "the operand of axes");
  Dims steps(starts.size(), 1);
  if (c.has(4)) steps = c.integers(4, "the operand of steps");
  c.need(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "starts, ends, axes and steps differ in length");
  Dims low(from.size(), 0);
  Dims high = from;
  Dims stride(from.size(), 1);
  Dims reversed;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t axis = c.axis(axes[i], rank);
    const std::int64_t size = from[at(axis)];
    const std::int64_t step = steps[i];
    c.need(step != 0, "a step of 0");
    const auto wrap = [size](std::int64_t value) { return value < 0 ? value + size : value; };
    if (step > 0) {
      const std::int64_t first = std::clamp<std::int64_t>(wrap(starts[i]), 0, size);
      const std::int64_t end = std::clamp<std::int64_t>(wrap(ends[i]), 0, size);
      low[at(axis)] = first;
      high[at(axis)] = std::max(first, end);
      stride[at(axis)] = std::min(step, std::max<std::int64_t>(size, 1));
    } else {
      // Elements first, first + step, … above `end`: those positions in reverse.
      // As the standard has it, not as NumPy: what is before the first begins at the first.
      const std::int64_t first =
          std::min(std::max<std::int64_t>(wrap(starts[i]), 0), size - 1);  // -1: there is none
      const std::int64_t end = std::clamp<std::int64_t>(wrap(ends[i]), -1, size - 1);
      const std::int64_t by = std::min(-(step + 1), size) + 1;
      const std::int64_t count = first > end ? (first - end - 1) / by + 1 : 0;
      low[at(axis)] = count == 0 ? 0 : first - (count - 1) * by;
      high[at(axis)] = count == 0 ? 0 : first + 1;
      stride[at(axis)] = by;
      reversed.push_back(axis);
    }
  }
  c.out(c.b.reverse(c.b.slice(c.in(0), low, high, stride), reversed));
}

// Pads one axis by copies of what is inside.
Hlo pad_axis(NodeContext& c, Hlo x, std::int64_t axis, std::int64_t low, std::int64_t high,
             const std::string& mode) {
  HloBuilder& b = c.b;
  const auto piece = [&](bool before, std::int64_t count) {
    const std::int64_t size = x.dims[at(axis)];
    if (mode == "edge") {
      c.need(size > 0, "the edge of an empty axis");
      const std::int64_t edge = before ? 0 : size - 1;
      Dims dims = x.dims;
      dims[at(axis)] = count;
      return b.broadcast_in_dim(b.slice_axis(x, axis, edge, edge + 1), dims,
                                range_dims(0, x.rank()));
    }
    if (mode == "reflect") {
      const std::int64_t start = before ? 1 : size - 1 - count;
      return b.reverse(b.slice_axis(x, axis, start, start + count), {axis});
    }
    const std::int64_t start = before ? size - count : 0;  // wrap
    return b.slice_axis(x, axis, start, start + count);
  };
  if (low < 0 || high < 0) {
    x = b.slice_axis(x, axis, std::max<std::int64_t>(-low, 0),
                     x.dims[at(axis)] - std::max<std::int64_t>(-high, 0));
    low = std::max<std::int64_t>(low, 0);
    high = std::max<std::int64_t>(high, 0);
  }
  const std::int64_t most = mode == "reflect" ? x.dims[at(axis)] - 1 : x.dims[at(axis)];
  if (mode != "edge") {
    c.need(low <= most && high <= most, "more padding than there are elements to copy");
  }
  Hlos parts;
  if (low > 0) parts.push_back(piece(true, low));
  parts.push_back(x);
  if (high > 0) parts.push_back(piece(false, high));
  return b.concatenate(parts, axis);
}

void lower_pad(NodeContext& c) {
  const std::int64_t rank = c.rank(0);
  const Dims pads = c.integers(1, "the operand of pads");
  const Dims axes = [&] {
    if (!c.has(3)) return range_dims(0, rank);
    Dims values = c.integers(3, "the operand of axes");
    for (std::int64_t& value : values) value = c.axis(value, rank);
    return values;
  }();
  c.need(pads.size() == 2 * axes.size(), "two pads per axis are needed");
  const std::string mode = need_string(c.node, "mode");
  Dims low(at(rank), 0);
  Dims high(at(rank), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    low[at(axes[i])] = pads[i];
    high[at(axes[i])] = pads[i + axes.size()];
  }
  if (mode == "constant") {
    const DType dtype = c.dtype(0);
    const Hlo value = c.has(2) ? c.b.reshape(c.in(2), {}) : c.b.scalar(0, dtype);
    for (std::int64_t i = 0; i < rank; ++i) {
      c.need(c.dims(0)[at(i)] + low[at(i)] + high[at(i)] >= 0, "a negative size");
    }
    if (c.is_last(0)) {
      const auto last = [&](const Dims& values) {
        Dims out;
        for (const std::int64_t axis : channels_last_permutation(rank)) {
          out.push_back(values[at(axis)]);
        }
        return out;
      };
      c.out_last(0, c.b.pad(c.in_last(0), value, last(low), last(high)));
    } else {
      c.out(c.b.pad(c.in(0), value, low, high));
    }
    return;
  }
  c.need(mode == "edge" || mode == "reflect" || mode == "wrap",
         fmt::format("no padding mode '{}'", mode));
  Hlo x = c.in(0);
  for (std::int64_t i = 0; i < rank; ++i) {
    if (low[at(i)] != 0 || high[at(i)] != 0) x = pad_axis(c, x, i, low[at(i)], high[at(i)], mode);
  }
  c.out(x);
}

void lower_depth_to_space(NodeContext& c) {
  const Dims from = c.dims(0);
  const std::int64_t block = c.attr("blocksize");
  c.need(from.size() == 4 && block > 0 && from[1] % (block * block) == 0, "the channels");
  const std::int64_t depth = from[1] / (block * block);
  const bool crd = need_string(c.node, "mode") == "CRD";
  const Hlo x = c.in(0);
  const Hlo split = crd ? c.b.reshape(x, {from[0], depth, block, block, from[2], from[3]})
                        : c.b.reshape(x, {from[0], block, block, depth, from[2], from[3]});
  const Hlo moved = c.b.transpose(split, crd ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2});
  c.out(c.b.reshape(moved, {from[0], depth, from[2] * block, from[3] * block}));
}

void lower_space_to_depth(NodeContext& c) {
  const Dims from = c.dims(0);
  const std::int64_t block = c.attr("blocksize");
  c.need(from.size() == 4 && block > 0 && from[2] % block == 0 && from[3] % block == 0,
         "the height and width");
  const Hlo split =
      c.b.reshape(c.in(0), {from[0], from[1], from[2] / block, block, from[3] / block, block});
  const bool crd = need_string(c.node, "mode") == "CRD";
  const Dims order = crd ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4};
  c.out(c.b.reshape(c.b.transpose(split, order),
                    {from[0], from[1] * block * block, from[2] / block, from[3] / block}));
}

void lower_trilu(NodeContext& c) {
  const Hlo x = c.in(0);
  c.need(x.rank() >= 2, "the rank");
  const std::int64_t k = c.has(1) ? c.integers(1, "the operand k").at(0) : 0;
  const Dims plane{x.dims[at(x.rank() - 2)], x.dims[at(x.rank() - 1)]};
  const Hlo row = c.b.iota(DType::kInt64, plane, 0);
  const Hlo column = c.b.iota(DType::kInt64, plane, 1);
  const Hlo diagonal = c.b.add(row, c.b.splat(static_cast<double>(k), DType::kInt64, plane));
  const Hlo keep = c.b.compare(c.attr("upper") != 0 ? "GE" : "LE", column, diagonal);
  c.out(c.b.select(c.b.broadcast_to(keep, x.dims), x, c.b.zeros_like(x)));
}

void lower_eye_like(NodeContext& c) {
  const Dims dims = c.dims(0);
  c.need(dims.size() == 2, "the rank");
  const DType dtype =
      static_cast<DType>(c.node.attr_int("dtype", static_cast<std::int64_t>(c.dtype(0))));
  const Hlo row = c.b.iota(DType::kInt64, dims, 0);
  const Hlo shifted = c.b.binary_scalar("add", row, static_cast<double>(c.attr("k")));
  c.out(cast(c.b, c.b.compare("EQ", shifted, c.b.iota(DType::kInt64, dims, 1)), dtype));
}

void lower_constant_of_shape(NodeContext& c) {
  const Dims dims = c.integers(0, "the shape");
  const Tensor* value = c.node.attr_tensor("value");
  const Hlo element =
      value == nullptr ? c.b.scalar(0, DType::kFloat32) : c.b.reshape(c.b.constant(*value), {});
  c.out(c.b.broadcast_in_dim(element, dims, {}));
}

void lower_range(NodeContext& c) {
  const std::vector<double> start = c.numbers(0, "start");
  const std::vector<double> limit = c.numbers(1, "limit");
  const std::vector<double> delta = c.numbers(2, "delta");
  c.need(delta.at(0) != 0, "a delta of 0");
  const double count = std::ceil((limit.at(0) - start.at(0)) / delta[0]);
  const Dims dims{count > 0 ? static_cast<std::int64_t>(count) : 0};
  const DType dtype = c.dtype(0);
  const Hlo steps = c.b.iota(dtype, dims, 0);
  c.out(c.b.add(c.b.broadcast_in_dim(c.b.reshape(c.in(0), {}), dims, {}),
                c.b.mul(steps, c.b.broadcast_in_dim(c.b.reshape(c.in(2), {}), dims, {}))));
}

}  // namespace

void register_shape(LoweringTable& t) {
  t.add("Reshape", lower_reshape);
  t.add("Flatten", lower_flatten);
  t.add("Squeeze", lower_squeeze);
  t.add("Unsqueeze", lower_unsqueeze);
  t.add("Transpose", lower_transpose);
  t.add("Expand", lower_expand);
  t.add("Tile", lower_tile);
  t.add("Concat", lower_concat);
  t.add("Split", lower_split);
  t.add("Slice", lower_slice);
  t.add("Pad", lower_pad);
  t.add("DepthToSpace", lower_depth_to_space);
  t.add("SpaceToDepth", lower_space_to_depth);
  t.add("Trilu", lower_trilu);
  t.add("EyeLike", lower_eye_like);
  t.add("ConstantOfShape", lower_constant_of_shape);
  t.add("Range", lower_range);
}

}  // namespace xrt::xla
