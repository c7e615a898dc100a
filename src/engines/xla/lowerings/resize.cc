// SPDX-License-Identifier: Apache-2.0
// Resize: each axis by a matrix of weights worked out at compile time; nearest by a list of places.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engines/xla/lowerings/places.h"
#include "engines/xla/lowerings/take.h"
#include "ops/sizes/resize_places.h"

namespace xrt::xla {

namespace {

// Elements of what is worked out for an axis at compile time: more would take seconds, and memory
// that no bound of a run counts.
constexpr double kMostElements = 1 << 24;

// One axis to be resized.
struct AxisPlan : ResizedAxis {
  std::int64_t axis = 0;
};

struct Mode {
  std::string kind;  // nearest, linear, cubic
  ResizeTransform transform = ResizeTransform::kHalfPixel;
  ResizeNearest nearest = ResizeNearest::kPreferFloor;
  double cubic_a = -0.75;
  bool antialias = false;
  bool exclude_outside = false;
};

double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The weights of the elements around `position`: the first one's place and one weight each.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Taps taps_at(double position, const AxisPlan& p, const Mode& mode) {
  // The neighbour on the left, even of a position that is itself an element.
  const double base = std::ceil(position) - 1;
  const double ratio = position - base;
  const double reach = mode.kind == "cubic" ? 2 : 1;
  const double shrink = mode.antialias ? std::min(p.scale, 1.0) : 1.0;
  const auto start = static_cast<std::int64_t>(std::floor(-reach / shrink)) + 1;
  const std::int64_t count = 2 - 2 * start;
  Taps taps{static_cast<std::int64_t>(base) + start, {}};
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double distance = (static_cast<double>(start + i) - ratio) * shrink;
    double weight = mode.kind == "cubic" ? cubic_weight(distance, mode.cubic_a)
                                         : std::clamp(1 - std::abs(distance), 0.0, 1.0);
    const std::int64_t place = taps.first + i;
    if (mode.exclude_outside && (place < 0 || place >= p.in)) weight = 0;
    taps.weights.push_back(weight);
    total += weight;
  }
  if (mode.antialias || mode.exclude_outside) {
    for (double& weight : taps.weights) weight /= total;
  }
  return taps;
}

// Where this axis reads outside of the operand, which only cropping makes different.
std::vector<bool> outside(const AxisPlan& p, const Mode& mode) {
  std::vector<bool> out(at(p.out), false);
  if (mode.transform != ResizeTransform::kCrop) return out;
  for (std::int64_t x = 0; x < p.out; ++x) {
    const double position = resized_place(mode.transform, p, x);
    out[at(x)] = position < 0 || position > static_cast<double>(p.in - 1);
  }
  return out;
}

Hlo resize_by_places(NodeContext& c, const Hlo& x, const AxisPlan& p, const Mode& mode,
                     std::int64_t axis) {
  HloBuilder& b = c.b;
  Dims places;
  for (std::int64_t i = 0; i < p.out; ++i) {
    places.push_back(nearest_element(mode.nearest, resized_place(mode.transform, p, i), p.in));
  }
  // A whole factor repeats every element, which needs no list.
  const std::int64_t factor = p.out / p.in;
  bool repeats = factor * p.in == p.out;
  for (std::int64_t i = 0; repeats && i < p.out; ++i) repeats = places[at(i)] == i / factor;
  if (repeats) {
    Dims wide = x.dims;
    wide.insert(wide.begin() + axis + 1, factor);
    Dims map = range_dims(0, axis + 1);
    for (std::int64_t i = axis + 2; i <= x.rank(); ++i) map.push_back(i);
    Dims flat = x.dims;
    flat[at(axis)] = p.out;
    return b.reshape(b.broadcast_in_dim(x, wide, map), flat);
  }
  return take(b, x, b.integers(places), axis);
}

Hlo resize_weighted(NodeContext& c, const Hlo& x, const AxisPlan& p, const Mode& mode,
                    std::int64_t axis) {
  HloBuilder& b = c.b;
  std::vector<float> matrix(at(p.out * p.in), 0.0F);
  for (std::int64_t i = 0; i < p.out; ++i) {
    const Taps taps = taps_at(resized_place(mode.transform, p, i), p, mode);
    for (std::size_t k = 0; k < taps.weights.size(); ++k) {
      const std::int64_t place =
          std::clamp<std::int64_t>(taps.first + static_cast<std::int64_t>(k), 0, p.in - 1);
      matrix[at(i * p.in + place)] += static_cast<float>(taps.weights[k]);
    }
  }
  const Hlo weights =
      b.convert(b.constant(Tensor::from<float>(DType::kFloat32, {p.out, p.in}, matrix)), x.dtype);
  // [.., in, ..] · [out, in] → [.., .., out], then the axis goes back.
  const Hlo product = b.dot_general(x, weights, {}, {}, {axis}, {1}, x.dtype);
  Dims permutation = range_dims(0, axis);
  permutation.push_back(x.rank() - 1);
  for (std::int64_t i = axis; i < x.rank() - 1; ++i) permutation.push_back(i);
  return b.transpose(product, permutation);
}

std::vector<AxisPlan> plans(NodeContext& c, bool crops) {
  const Dims dims = c.dims(0);
  const auto rank = static_cast<std::int64_t>(dims.size());
  Dims axes = range_dims(0, rank);
  if (c.node.has("axes")) axes = c.node.attr_ints("axes");
  std::vector<AxisPlan> out;
  for (const std::int64_t axis : axes) {
    AxisPlan& p = out.emplace_back();
    p.axis = axis;
    p.in = p.out = dims[at(axis)];
  }
  if (c.has(3)) {
    const Dims sizes = c.integers(3, "the operand of sizes");
    c.need(sizes.size() == axes.size(), "one size per axis is needed");
    const std::string policy = need_string(c.node, "keep_aspect_ratio_policy");
    double common = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].out = sizes[i];
      out[i].scale = static_cast<double>(sizes[i]) / static_cast<double>(out[i].in);
      out[i].length = static_cast<double>(sizes[i]);
      const bool smaller = policy == "not_larger" ? out[i].scale < common : out[i].scale > common;
      if (i == 0 || smaller) common = out[i].scale;
    }
    if (policy != "stretch") {
      for (AxisPlan& p : out) {
        p.scale = common;
        p.out = static_cast<std::int64_t>(std::floor(common * static_cast<double>(p.in) + 0.5));
        p.length = static_cast<double>(p.out);
      }
    }
  } else {
    const std::vector<double> scales = c.numbers(2, "the operand of scales");
    c.need(scales.size() == axes.size(), "one scale per axis is needed");
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].scale = scales[i];
      out[i].length = static_cast<double>(out[i].in) * scales[i];
      const auto size = resized_size(out[i].in, static_cast<float>(scales[i]));
      c.need(size.has_value(), "the result is too large");
      out[i].out = *size;
    }
  }
  if (crops) {
    const std::vector<double> roi = c.numbers(1, "the operand roi");
    c.need(roi.size() == 2 * axes.size(), "a start and an end per axis are needed");
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].roi_start = roi[i];
      out[i].roi_end = roi[i + axes.size()];
    }
  }
  return out;
}

void lower_resize(NodeContext& c) {
  HloBuilder& b = c.b;
  Mode mode;
  mode.kind = need_string(c.node, "mode");
  const std::string transform = need_string(c.node, "coordinate_transformation_mode");
  const std::string rounding = need_string(c.node, "nearest_mode");
  c.need(resize_transform(transform).has_value(), "no coordinate transformation " + transform);
  c.need(resize_nearest(rounding).has_value(), "no way to round " + rounding);
  mode.transform = *resize_transform(transform);
  mode.nearest = *resize_nearest(rounding);
  mode.cubic_a = need_float(c.node, "cubic_coeff_a");
  mode.antialias = c.attr("antialias") != 0;
  mode.exclude_outside = c.attr("exclude_outside") != 0;
  const bool crops = mode.transform == ResizeTransform::kCrop;
  const DType result = c.dtype(0);
  const bool last = c.is_last(0);
  Hlo x = last ? c.in_last(0) : c.in(0);
  const bool nearest = mode.kind == "nearest";
  c.need(nearest || !is_integer(result) || bit_width(result) <= 16, "large integers are not mixed");
  if (!nearest) x = b.convert(x, is_integer(result) ? DType::kFloat32 : compute_dtype(result));
  const Dims order = channels_last_permutation(x.rank());
  Hlo beyond;
  const std::vector<AxisPlan> axes = plans(c, crops);
  // As ONNX Runtime has it, whatever the scales are: nothing changes its size.
  const bool copies = !crops && std::all_of(axes.begin(), axes.end(),
                                            [](const AxisPlan& p) { return p.in == p.out; });
  for (const AxisPlan& p : axes) {
    if (copies) break;
    c.need(p.in > 0 && p.out > 0, "an empty axis");
    if (p.in == p.out && p.scale == 1 && !crops) continue;
    const double elements = static_cast<double>(p.out) * (nearest ? 1 : static_cast<double>(p.in));
    c.need(
        elements <= kMostElements,
        fmt::format("an axis of {} becomes one of {} by a table that is too large", p.in, p.out));
    const std::int64_t axis =
        last ? std::find(order.begin(), order.end(), p.axis) - order.begin() : p.axis;
    x = nearest ? resize_by_places(c, x, p, mode, axis) : resize_weighted(c, x, p, mode, axis);
    const std::vector<bool> off = outside(p, mode);
    if (std::find(off.begin(), off.end(), true) != off.end()) {
      Tensor flags = Tensor::allocate(DType::kBool, {p.out});
      for (std::size_t i = 0; i < off.size(); ++i) flags.data<std::uint8_t>()[i] = off[i] ? 1 : 0;
      // Kept along its own axis until all sizes are final.
      Dims dims(x.dims.size(), 1);
      dims[at(axis)] = p.out;
      const Hlo here = b.reshape(b.constant(flags), dims);
      if (!beyond.valid()) {
        beyond = here;
      } else {
        const Hlos both = c.broadcast({beyond, here});
        beyond = b.binary("or", both[0], both[1]);
      }
    }
  }
  if (beyond.valid()) {
    const double value = need_float(c.node, "extrapolation_value");
    x = b.select(b.broadcast_to(beyond, x.dims), b.splat(value, x.dtype, x.dims), x);
  }
  x = !nearest && is_integer(result) ? round_to(b, x, result) : cast(b, x, result);
  last ? c.out_last(0, x) : c.out(x);
}

}  // namespace

void register_resize(LoweringTable& t) { t.add("Resize", lower_resize); }

}  // namespace xrt::xla
