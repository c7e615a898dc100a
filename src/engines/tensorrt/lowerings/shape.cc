// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without computing: reshapes, slices, concatenations, paddings.
#include <algorithm>
#include <limits>
#include <numeric>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

std::int64_t product(const Dims& dims, std::size_t first, std::size_t last) {
  std::int64_t out = 1;
  for (std::size_t i = first; i < last; ++i) out *= dims[i];
  return out;
}

void reshape(NodeContext& c) {
  const Dims wanted = c.integers(1, "the shape");
  const bool allow_zero = c.attr("allowzero") != 0;
  const Value x = c.in(0);
  const Dims have = c.dims(0);
  Extents extents;
  std::int64_t open = -1;
  std::int64_t rest = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && !allow_zero) {
      c.need(i < have.size(), "the shape copies a dimension that is not there");
      extents.emplace_back(x, static_cast<std::int64_t>(i));
    } else if (wanted[i] == -1) {
      open = static_cast<std::int64_t>(i);
      extents.emplace_back(-1);
      continue;
    } else {
      extents.emplace_back(wanted[i]);
    }
    const std::int64_t value = extents.back().value;
    rest = value < 0 || rest < 0 ? -1 : rest * value;
  }
  if (open >= 0 && is_static(have)) {
    c.need(rest > 0, "the shape leaves a dimension open beside one of length zero");
    extents[static_cast<std::size_t>(open)] = Extent(product(have, 0, have.size()) / rest);
  } else if (open >= 0) {
    const auto unknown =
        std::count_if(extents.begin(), extents.end(), [](const Extent& e) { return e.value < 0; });
    c.need(unknown == 1, "the shape leaves one dimension open and copies unknown ones");
  }
  c.out(c.net.reshape(x, extents));
}

void flatten(NodeContext& c) {
  const Value x = c.in(0);
  const Dims dims = c.dims(0);
  const std::int64_t at = c.attr("axis");
  const auto split = static_cast<std::size_t>(at);
  c.need(split <= dims.size(), "the axis");
  const bool front = is_static({dims.begin(), dims.begin() + at});
  const bool back = is_static({dims.begin() + at, dims.end()});
  c.need(front || back, "dimensions before and after the axis are unknown");
  c.out(c.net.reshape(
      x, {front ? product(dims, 0, split) : -1, back ? product(dims, split, dims.size()) : -1}));
}

void squeeze(NodeContext& c) {
  const Dims dims = c.dims(0);
  Dims ones;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) ones.push_back(static_cast<std::int64_t>(i));
  }
  c.need(c.has(1) || is_static(dims), "the axes are not given");
  c.out(c.net.squeeze(c.in(0), c.axes_operand(1, c.rank(0), ones)));
}

void unsqueeze(NodeContext& c) {
  const Dims axes = c.integers(1, "the operand of axes");
  c.out(c.net.unsqueeze(c.in(0), c.axes(axes, c.rank(0) + std::ssize(axes))));
}

void transpose(NodeContext& c) { c.out(c.net.transpose(c.in(0), need_ints(c.node, "perm"))); }

void concat(NodeContext& c) {
  std::vector<Value> parts;
  for (std::size_t i = 0; i < c.input_count(); ++i) parts.push_back(c.in(i));
  c.out(c.net.concat(parts, c.attr("axis")));
}

void split(NodeContext& c) {
  const std::int64_t axis = c.attr("axis");
  const auto at = static_cast<std::size_t>(axis);
  const std::size_t parts = c.node.outputs.size();
  Dims lengths;
  if (c.has(1)) {
    lengths = c.integers(1, "the lengths");
  } else {
    const std::int64_t length = c.dims(0)[at];
    c.need(length >= 0, "the axis to split is of unknown length");
    const auto n = static_cast<std::int64_t>(parts);
    const std::int64_t each = (length + n - 1) / n;
    for (std::int64_t i = 0; i < n; ++i) {
      lengths.push_back(std::clamp<std::int64_t>(length - i * each, 0, each));
    }
  }
  c.need(lengths.size() == parts, "the lengths are not one per output");
  c.need(std::none_of(lengths.begin(), lengths.end(), [](auto n) { return n < 0; }),
         "a length below zero");
  const Value x = c.in(0);
  Dims start(static_cast<std::size_t>(c.rank(0)), 0);
  for (std::size_t i = 0; i < parts; ++i) {
    Extents size = extents_of(x);
    size[at] = Extent(lengths[i]);
    if (c.wants(i)) c.out(i, c.net.slice(x, start, size, Dims(start.size(), 1)));
    start[at] += lengths[i];
  }
}

void slice(NodeContext& c) {
  const std::int64_t rank = c.rank(0);
  const Dims starts = c.integers(1, "starts");
  const Dims ends = c.integers(2, "ends");
  Dims axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.integers(3, "the operand of axes");
  const Dims steps = c.has(4) ? c.integers(4, "steps") : Dims(starts.size(), 1);
  c.need(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "starts, ends, axes and steps differ in length");
  const Value x = c.in(0);
  const Dims dims = c.dims(0);
  Dims start(static_cast<std::size_t>(rank), 0);
  Dims stride(start.size(), 1);
  Extents size = extents_of(x);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(c.axis(axes[i], rank));
    const std::int64_t length = dims[axis];
    const std::int64_t step = steps[i];
    c.need(step != 0, "a step of zero");
    c.need(length >= 0, "the axis to slice is of unknown length");
    // Python's rules, written for both directions.
    const auto clamp = [&](std::int64_t value, std::int64_t low, std::int64_t high) {
      if (value < 0) value += length;
      return std::clamp(value, low, high);
    };
    const std::int64_t first =
        step > 0 ? clamp(starts[i], 0, length) : clamp(starts[i], 0, length - 1);
    const std::int64_t end = step > 0 ? clamp(ends[i], 0, length)
                                      : (ends[i] < -length ? -1 : clamp(ends[i], -1, length - 1));
    const std::int64_t distance = step > 0 ? end - first : first - end;
    const std::int64_t pace = step > 0 ? step : -step;
    const std::int64_t count = distance <= 0 ? 0 : (distance + pace - 1) / pace;
    start[axis] = count == 0 ? 0 : first;
    stride[axis] = count <= 1 ? 1 : step;
    size[axis] = Extent(count);
  }
  c.out(c.net.slice(x, start, size, stride));
}

void expand(NodeContext& c) {
  Dims wanted = c.integers(1, "the shape");
  const Dims have = c.dims(0);
  // A one in the shape keeps what is there.
  const std::size_t rank = std::max(wanted.size(), have.size());
  wanted.insert(wanted.begin(), rank - wanted.size(), 1);
  for (std::size_t i = 0; i < have.size(); ++i) {
    std::int64_t& dim = wanted[rank - have.size() + i];
    c.need(have[i] >= 0, "the operand has no static shape");
    if (dim == 1) dim = have[i];
  }
  c.out(c.net.expand(c.in(0), wanted));
}

void tile(NodeContext& c) {
  const Dims repeats = c.integers(1, "the repeats");
  const Dims dims = c.require_static(0, "Tile");
  c.need(repeats.size() == dims.size(), "the repeats are not one per axis");
  Dims size = dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    c.need(dims[i] > 0, "an empty operand");
    size[i] *= repeats[i];
  }
  if (dims.empty()) {
    c.out(c.in(0));
    return;
  }
  c.out(c.net.slice(c.in(0), Dims(dims.size(), 0), Extents(size.begin(), size.end()),
                    Dims(dims.size(), 1), nvinfer1::SampleMode::kWRAP));
}

void pad(NodeContext& c) {
  const std::int64_t rank = c.rank(0);
  const Dims pads = c.integers(1, "the pads");
  Dims axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.integers(3, "the operand of axes");
  c.need(pads.size() == 2 * axes.size(), "the pads are not two per axis");
  const Value x = c.in(0);
  const Dims dims = c.dims(0);
  Dims start(static_cast<std::size_t>(rank), 0);
  Extents size = extents_of(x);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(c.axis(axes[i], rank));
    const std::int64_t before = pads[i];
    const std::int64_t after = pads[axes.size() + i];
    if (before == 0 && after == 0) continue;
    c.need(dims[axis] >= 0, "the axis to pad is of unknown length");
    start[axis] = -before;
    size[axis] = Extent(dims[axis] + before + after);
  }
  const std::string mode = need_string(c.node, "mode");
  using nvinfer1::SampleMode;
  if (mode == "constant") {
    const Value fill = c.has(2) ? c.net.reshape(c.in(2), {}) : c.net.scalar(c.dtype(0), 0.0);
    c.out(c.net.slice(x, start, size, Dims(start.size(), 1), SampleMode::kFILL, fill));
    return;
  }
  const SampleMode sample = mode == "reflect" ? SampleMode::kREFLECT
                            : mode == "edge"  ? SampleMode::kCLAMP
                                              : SampleMode::kWRAP;
  c.out(c.net.slice(x, start, size, Dims(start.size(), 1), sample));
}

// Known lengths are a constant; unknown ones are read in the run.
void shape_of(NodeContext& c) {
  const std::int64_t rank = c.rank(0);
  const auto bound = [&](std::int64_t value) {
    return std::clamp<std::int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  const std::int64_t start = bound(c.attr("start"));
  const std::int64_t end = bound(c.node.attr_int("end", rank));
  const Dims dims = c.dims(0);
  if (is_static(dims)) {
    Dims part;
    for (std::int64_t i = start; i < end; ++i) part.push_back(dims[static_cast<std::size_t>(i)]);
    c.out_constant(0, Tensor::from_int64(part));
    return;
  }
  c.need(start < end, "an empty part of an unknown shape");
  const Value x = c.in(0);
  Extents extents;
  for (std::int64_t i = start; i < end; ++i) extents.emplace_back(x, i);
  c.out(c.net.shape(extents));
}

void size_of(NodeContext& c) {
  const Dims dims = c.require_static(0, "Size");
  c.out_constant(0, Tensor::scalar(product(dims, 0, dims.size())));
}

void constant(NodeContext& c) {
  if (const Tensor* value = c.node.attr_tensor("value")) {
    c.out_constant(0, *value);
  } else if (c.node.has("value_int")) {
    c.out_constant(0, Tensor::scalar(c.node.attr_int("value_int", 0)));
  } else if (c.node.has("value_float")) {
    c.out_constant(0, Tensor::scalar(c.node.attr_float("value_float", 0)));
  } else if (c.node.has("value_ints")) {
    c.out_constant(0, Tensor::from_int64(c.node.attr_ints("value_ints")));
  } else if (c.node.has("value_floats")) {
    const std::vector<float> values = c.node.attr_floats("value_floats");
    c.out_constant(0,
                   Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(values.size())},
                                       std::span<const float>(values)));
  } else {
    c.refuse("a constant of this kind");
  }
}

void constant_of_shape(NodeContext& c) {
  const Dims dims = c.integers(0, "the shape");
  const Tensor* value = c.node.attr_tensor("value");
  const Tensor element = value != nullptr ? value->reshaped({}) : Tensor::scalar(0.0F);
  c.out(c.net.expand(c.net.constant(element), dims));
}

// [N, C, H, W] → blocks of channels become pixels.
void depth_to_space(NodeContext& c) {
  const std::int64_t b = c.attr("blocksize");
  const Dims d = c.require_static(0, "DepthToSpace");
  c.need(d.size() == 4 && b > 0 && d[1] % (b * b) == 0, "its operand is no image of that depth");
  const std::int64_t depth = d[1] / (b * b);
  Value x = c.in(0);
  if (need_string(c.node, "mode") == "DCR") {
    x = c.net.reshape(x, {d[0], b, b, depth, d[2], d[3]});
    x = c.net.transpose(x, {0, 3, 4, 1, 5, 2});
  } else {
    x = c.net.reshape(x, {d[0], depth, b, b, d[2], d[3]});
    x = c.net.transpose(x, {0, 1, 4, 2, 5, 3});
  }
  c.out(c.net.reshape(x, {d[0], depth, d[2] * b, d[3] * b}));
}

void space_to_depth(NodeContext& c) {
  const std::int64_t b = c.attr("blocksize");
  const Dims d = c.require_static(0, "SpaceToDepth");
  c.need(d.size() == 4 && b > 0 && d[2] % b == 0 && d[3] % b == 0,
         "its operand is no image of that size");
  Value x = c.net.reshape(c.in(0), {d[0], d[1], d[2] / b, b, d[3] / b, b});
  x = c.net.transpose(x, {0, 3, 5, 1, 2, 4});
  c.out(c.net.reshape(x, {d[0], d[1] * b * b, d[2] / b, d[3] / b}));
}

}  // namespace

void register_shape(LoweringTable& t) {
  t.add("Reshape", reshape);
  t.add("Flatten", flatten);
  t.add("Squeeze", squeeze);
  t.add("Unsqueeze", unsqueeze);
  t.add("Transpose", transpose);
  t.add("Concat", concat);
  t.add("Split", split);
  t.add("Slice", slice);
  t.add("Expand", expand);
  t.add("Tile", tile);
  t.add("Pad", pad);
  t.add("Shape", shape_of);
  t.add("Size", size_of);
  t.add("Constant", constant);
  t.add("ConstantOfShape", constant_of_shape);
  t.add("DepthToSpace", depth_to_space);
  t.add("SpaceToDepth", space_to_depth);
}

}  // namespace xrt::tensorrt
