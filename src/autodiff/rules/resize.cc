// SPDX-License-Identifier: Apache-2.0
// Resize along one axis is a product with a matrix; the gradient is one with its transpose. Sizes
// are known, so the matrices are constants.
#include <algorithm>
#include <cmath>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

struct Axis {
  std::int64_t from = 0;
  std::int64_t to = 0;
  double scale = 1;
};

double nearest(const std::string& mode, double x) {
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  return std::ceil(x - 0.5);  // round_prefer_floor
}

// Where output `i` lies in the input, by the formulas of the ONNX operator.
double coordinate(const Rule& r, const std::string& mode, const Axis& axis, std::int64_t i) {
  const auto x = static_cast<double>(i);
  const auto from = static_cast<double>(axis.from);
  const auto to = static_cast<double>(axis.to);
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "align_corners") return axis.to == 1 ? 0 : x * (from - 1) / (to - 1);
  if (mode == "pytorch_half_pixel") return axis.to > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
  if (mode == "half_pixel_symmetric") {
    const double adjustment = to / (axis.scale * from);
    return from / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
  }
  if (mode == "half_pixel") return (x + 0.5) / axis.scale - 0.5;
  r.refuse("coordinate_transformation_mode '" + mode + "'");
}

// Rows: outputs; columns: inputs.
std::vector<double> weights(const Rule& r, const Axis& axis) {
  const std::string mode = need_string(r.node, "mode");
  const std::string place = need_string(r.node, "coordinate_transformation_mode");
  const std::string rounding = need_string(r.node, "nearest_mode");
  const double a = need_float(r.node, "cubic_coeff_a");
  const bool exclude = r.attr("exclude_outside") != 0;
  std::vector<double> matrix(static_cast<std::size_t>(axis.from * axis.to));
  for (std::int64_t i = 0; i < axis.to; ++i) {
    const double x = coordinate(r, place, axis, i);
    const auto row = matrix.begin() + i * axis.from;
    const auto add = [&](double at, double weight) {
      row[std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, axis.from - 1)] += weight;
    };
    if (mode == "nearest") {
      add(nearest(rounding, x), 1);
      continue;
    }
    const double base = std::floor(x);
    const double t = x - base;
    std::vector<std::pair<double, double>> taps;
    if (mode == "linear") {
      taps = {{base, 1 - t}, {base + 1, t}};
    } else {
      const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      taps = {
          {base - 1, far(1 + t)}, {base, near(t)}, {base + 1, near(1 - t)}, {base + 2, far(2 - t)}};
    }
    double total = 0;
    for (auto& [at, weight] : taps) {
      if (exclude && (at < 0 || at >= static_cast<double>(axis.from))) weight = 0;
      total += weight;
    }
    for (const auto& [at, weight] : taps) add(at, exclude ? weight / total : weight);
  }
  return matrix;
}

void resize_rule(Rule& r) {
  const Dims from = r.x_dims();
  const Dims to = r.y_dims();
  const auto rank = static_cast<std::int64_t>(from.size());
  if (r.attr("antialias") != 0) r.refuse("antialias");
  if (need_string(r.node, "coordinate_transformation_mode") == "tf_crop_and_resize") {
    r.refuse("coordinate_transformation_mode 'tf_crop_and_resize'");
  }
  const Dims axes = r.node.attr_ints("axes", range(0, rank));
  const Tensor* scales = r.has(2) ? r.e.graph().constant(r.node.input(2)) : nullptr;
  Var g = r.dy();
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    Axis sizes{from[axis], to[axis],
               static_cast<double>(to[axis]) / static_cast<double>(from[axis])};
    const auto at = std::find(axes.begin(), axes.end(), axis) - axes.begin();
    if (scales != nullptr && scales->dtype() == DType::kFloat32 && at < scales->count()) {
      sizes.scale = scales->data<float>()[at];
    }
    if (sizes.from == sizes.to && sizes.scale == 1) continue;
    Dims perm = range(0, rank);
    std::swap(perm[axis], perm[rank - 1]);
    const Var m = r.e.numbers(weights(r, sizes), {sizes.to, sizes.from}, g.dtype);
    g = transpose(matmul(transpose(g, perm), m), perm);
  }
  r.give(0, g);
}

}  // namespace

void register_resize(RuleRegistry& registry) { registry.add("Resize", resize_rule, inputs({0})); }

}  // namespace xrt::autodiff
