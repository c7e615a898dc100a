// SPDX-License-Identifier: Apache-2.0
// Ops that move elements.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "ir/attributes.h"
#include "lower/lower.h"

namespace xrt::lite {
namespace {

using Ints = std::vector<std::int64_t>;

// The whole of x, to the beginning of y.
CopyPiece whole(int x, const Dims& dims) {
  CopyPiece p;
  p.x = x;
  p.x_start.assign(dims.size(), 0);
  p.x_step.assign(dims.size(), 1);
  p.y_start.assign(dims.size(), 0);
  p.size = dims;
  return p;
}

// What the kernel multiplies an element's place by so that, rounded down, it gives the pixels that
// the node asks for; nothing where none does. Products are rounded: 49 · (1/49) is less than 1 in
// float32, so that the next larger number is tried as well.
std::optional<float> step_down(ResizeTransform transform, ResizeNearest nearest,
                               const ResizedAxis& axis) {
  const auto picks = [&](float scale) {
    for (std::int64_t i = 0; i < axis.out; ++i) {
      const float at = std::min(static_cast<float>(i) * scale, static_cast<float>(axis.in - 1));
      const double place = resized_place(transform, axis, i);
      if (static_cast<std::int64_t>(at) != nearest_element(nearest, place, axis.in)) return false;
    }
    return true;
  };
  const double ratio = static_cast<double>(axis.in) / static_cast<double>(axis.out);
  for (const double wanted : {1 / axis.scale, ratio}) {
    const auto scale = static_cast<float>(wanted);
    const float larger = std::nextafter(scale, std::numeric_limits<float>::infinity());
    if (picks(scale)) return scale;
    if (picks(larger)) return larger;
  }
  return std::nullopt;
}

}  // namespace

void Lowering::reshape(const Node& node) {
  LView v;
  v.x = input(node, 0);
  add(node, v, output(node));
}

void Lowering::transpose(const Node& node) {
  LView v;
  v.kind = LView::Kind::kTranspose;
  v.x = input(node, 0);
  for (const std::int64_t p : need_ints(node, "perm")) v.perm.push_back(static_cast<int>(p));
  add(node, v, output(node));
}

void Lowering::slice(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Dims& from = dims(x);
  const Ints starts = int_constant(node, 1), ends = int_constant(node, 2);
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (has_input(node, 3)) axes = int_constant(node, 3);
  const Ints steps = has_input(node, 4) ? int_constant(node, 4) : Ints(starts.size(), 1);
  LCopy c;
  c.pieces.push_back(whole(x, dims(y)));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    std::int64_t start = starts[i] < 0 ? starts[i] + from[d] : starts[i];
    start = steps[i] > 0 ? std::clamp<std::int64_t>(start, 0, from[d])
                         : std::clamp<std::int64_t>(start, 0, from[d] - 1);
    c.pieces[0].x_start[d] = start;
    c.pieces[0].x_step[d] = steps[i];
  }
  add(node, std::move(c), y);
}

void Lowering::concat(const Node& node) {
  const int y = output(node);
  const auto axis = static_cast<std::size_t>(need_int(node, "axis"));
  LCopy c;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const int x = input(node, i);
    if (dims(x)[axis] == 0) continue;
    c.pieces.push_back(whole(x, dims(x)));
    c.pieces.back().y_start[axis] = at;
    at += dims(x)[axis];
  }
  add(node, std::move(c), y);
}

void Lowering::split(const Node& node) {
  const int x = input(node, 0);
  const auto axis = static_cast<std::size_t>(need_int(node, "axis"));
  std::int64_t at = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const int y = output(node, i);
    LCopy c;
    c.pieces.push_back(whole(x, dims(y)));
    c.pieces[0].x_start[axis] = at;
    at += dims(y)[axis];
    add(node, std::move(c), y);
  }
}

void Lowering::pad(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Dims from = dims(x);
  const std::size_t rank = from.size();
  const Ints given = int_constant(node, 1);
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (has_input(node, 3)) axes = int_constant(node, 3);
  Ints before(rank, 0), after(rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    before[d] = given[i];
    after[d] = given[i + axes.size()];
  }
  const std::string mode = need_string(node, "mode");
  LCopy c;
  CopyPiece middle = whole(x, from);
  for (std::size_t d = 0; d < rank; ++d) {
    middle.x_start[d] = std::max<std::int64_t>(0, -before[d]);
    middle.y_start[d] = std::max<std::int64_t>(0, before[d]);
    middle.size[d] =
        from[d] + std::min<std::int64_t>(0, before[d]) + std::min<std::int64_t>(0, after[d]);
  }
  if (mode == "constant") {
    c.fill = true;
    if (has_input(node, 2)) {
      const Tensor value = numbers(node, 2, "value");
      std::memcpy(&c.fill_bits, value.raw(), std::min<std::size_t>(8, value.bytes()));
    }
    c.pieces.push_back(middle);
    return add(node, std::move(c), y);
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap") refuse(node, "mode " + mode);
  // Each dimension is cut into before, middle and after; every combination is a piece.
  c.pieces.push_back(middle);
  for (std::size_t d = 0; d < rank; ++d) {
    if (before[d] < 0 || after[d] < 0) refuse(node, "negative padding in mode " + mode);
    if (mode != "edge" && (before[d] > from[d] - 1 || after[d] > from[d] - 1)) {
      refuse(node, "padding of more than the dimension");
    }
    const std::size_t count = c.pieces.size();
    for (std::size_t i = 0; i < count; ++i) {
      const CopyPiece base = c.pieces[i];
      if (before[d] > 0) {
        CopyPiece p = base;
        p.size[d] = before[d];
        p.y_start[d] = 0;
        p.x_start[d] = mode == "reflect" ? before[d] : mode == "edge" ? 0 : from[d] - before[d];
        p.x_step[d] = mode == "reflect" ? -1 : mode == "edge" ? 0 : 1;
        c.pieces.push_back(p);
      }
      if (after[d] > 0) {
        CopyPiece p = base;
        p.size[d] = after[d];
        p.y_start[d] = before[d] + from[d];
        p.x_start[d] = mode == "reflect" ? from[d] - 2 : mode == "edge" ? from[d] - 1 : 0;
        p.x_step[d] = mode == "reflect" ? -1 : mode == "edge" ? 0 : 1;
        c.pieces.push_back(p);
      }
    }
  }
  add(node, std::move(c), y);
}

void Lowering::expand(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Dims to = dims(y);
  Dims from = dims(x);
  int source = x;
  if (from.size() < to.size()) {
    from.insert(from.begin(), to.size() - from.size(), 1);
    source = out_.add_value(node.name + "/view", dtype(x), from);
    LView v;
    v.x = x;
    add(node, v, source);
  }
  LCopy c;
  c.pieces.push_back(whole(source, to));
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (from[d] == 1 && to[d] > 1) c.pieces[0].x_step[d] = 0;
  }
  add(node, std::move(c), y);
}

void Lowering::gather(const Node& node) {
  LGather g;
  g.x = input(node, 0), g.indices = input(node, 1);
  g.axis = static_cast<int>(need_int(node, "axis"));
  if (dtype(g.indices) != DType::kInt64 && dtype(g.indices) != DType::kInt32)
    refuse(node, "indices");
  add(node, g, output(node));
}

// The scale that is given decides, which the sizes need not have: 5 · 0.5 makes two elements.
ResizedAxis Lowering::resized_axis(const Node& node, std::size_t axis, const Dims& from,
                                   const Dims& to) const {
  ResizedAxis a;
  a.in = from[axis], a.out = to[axis];
  a.length = static_cast<double>(a.out);
  a.scale = a.length / static_cast<double>(a.in);
  std::vector<std::int64_t> axes = {0, 1, 2, 3};
  if (node.has("axes")) axes = need_ints(node, "axes");
  const auto entry = std::find_if(axes.begin(), axes.end(), [&](std::int64_t d) {
    return d == static_cast<std::int64_t>(axis) || d + 4 == static_cast<std::int64_t>(axis);
  });
  if (entry == axes.end()) return a;
  if (has_input(node, 2) && !is_empty(node, 2)) {
    const Tensor scales = numbers(node, 2, "scales");
    if (scales.dtype() != DType::kFloat32 ||
        scales.count() != static_cast<std::int64_t>(axes.size())) {
      refuse(node, "scales are one float32 per axis");
    }
    a.scale = static_cast<double>(scales.data<float>()[entry - axes.begin()]);
    a.length = static_cast<double>(a.in) * a.scale;
  } else if (need_string(node, "keep_aspect_ratio_policy") != "stretch") {
    refuse(node, "sizes that keep the ratio of the sides");
  }
  return a;
}

void Lowering::resize(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Dims &from = dims(x), &to = dims(y);
  const std::string mode = need_string(node, "mode");
  const std::string transform = need_string(node, "coordinate_transformation_mode");
  if (from.size() != 4 || from[0] != to[0] || from[1] != to[1] || dtype(x) != DType::kFloat32) {
    refuse(node, "float32 images in height and width only");
  }
  if (from == to) return reshape(node);  // as ONNX Runtime has it, whatever the scales are
  const ResizedAxis high = resized_axis(node, 2, from, to), wide = resized_axis(node, 3, from, to);
  LResize r;
  r.x = x;
  r.linear = mode == "linear";
  if (mode == "nearest") {
    r.half_pixel = false;
    const auto places = resize_transform(transform);
    const auto rounds = resize_nearest(need_string(node, "nearest_mode"));
    const auto scale_h = places && rounds ? step_down(*places, *rounds, high) : std::nullopt;
    const auto scale_w = places && rounds ? step_down(*places, *rounds, wide) : std::nullopt;
    if (transform == "tf_crop_and_resize" || !scale_h || !scale_w) {
      refuse(node, "nearest where rounding down picks the same pixels, as by whole factors, only");
    }
    r.scale_h = *scale_h, r.scale_w = *scale_w;
  } else {
    if (mode != "linear" || (transform != "half_pixel" && transform != "asymmetric") ||
        need_int(node, "antialias") != 0) {
      refuse(node, "mode " + mode + ", " + transform);
    }
    r.half_pixel = transform == "half_pixel";
    r.scale_h = static_cast<float>(1 / high.scale);
    r.scale_w = static_cast<float>(1 / wide.scale);
  }
  add(node, r, y);
}

}  // namespace xrt::lite
