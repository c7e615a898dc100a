// SPDX-License-Identifier: Apache-2.0
// Pictures made larger, smaller or wider at the edges, and the gradients of that.
#include <algorithm>
#include <cmath>
#include <string>

#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/ops/axis_matrices.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

// --- padding ------------------------------------------------------------------------------------

// Pads of the front and of the back of every dimension; `padding` is left, right (, top, bottom).
Sizes pads_of(const Lowering& l) {
  const Sizes padding = l.sizes("padding");
  const auto rank = static_cast<std::size_t>(l.rank());
  if (padding.size() > 2 * rank || padding.size() % 2 != 0) l.invalid("padding does not fit");
  Sizes pads(2 * rank, 0);
  for (std::size_t i = 0; i < padding.size() / 2; ++i) {
    pads[rank - 1 - i] = padding[2 * i];
    pads[2 * rank - 1 - i] = padding[2 * i + 1];
  }
  return pads;
}

void padded(Lowering& l, const std::string& mode) {
  l.result(0, l.op("Pad", {l.in(), l.ints(pads_of(l))}, {{"mode", mode}}));
}

void reflection_pad(Lowering& l) { padded(l, "reflect"); }
void replication_pad(Lowering& l) { padded(l, "edge"); }

// dy: each element of x is read once or several times.
void padded_grad(Lowering& l, bool reflects) {
  const Dims dy = l.dims(0, 3), x = l.result_dims();
  const Sizes pads = pads_of(l);
  std::vector<Tensor> matrices;
  for (std::size_t axis = 0; axis < dy.size(); ++axis) {
    const std::int64_t before = pads[axis], after = pads[dy.size() + axis];
    if (before < 0 || after < 0) l.unsupported("negative padding");
    if (x.size() != dy.size() || x[axis] < 1 || x[axis] + before + after != dy[axis] ||
        (reflects && std::max(before, after) >= x[axis])) {
      l.invalid("padding does not lead from x to dy");
    }
    if (axis < 2) {
      if (before != 0 || after != 0) l.unsupported("padding of batch or channels");
      continue;
    }
    const std::int64_t last = x[axis] - 1;
    Tensor matrix = zero_matrix(l, dy[axis], x[axis]);
    for (std::int64_t o = 0; o < dy[axis]; ++o) {
      std::int64_t at = o - before;
      if (reflects) {
        at = std::abs(at);
        if (at > last) at = 2 * last - at;
      }
      matrix.data<float>()[o * x[axis] + std::clamp<std::int64_t>(at, 0, last)] = 1;
    }
    matrices.push_back(std::move(matrix));
  }
  l.result(0, apply_matrices(l, l.in(), l.dtype(), matrices, true, l.rank()));
}

void reflection_pad_grad(Lowering& l) { padded_grad(l, true); }
void replication_pad_grad(Lowering& l) { padded_grad(l, false); }

// --- sizes --------------------------------------------------------------------------------------

// The factors that the op was given, one per spatial axis of the three names that apply; empty
// where it was given a size: where a factor is no quotient of sizes, it counts.
std::vector<double> factors_of(const Lowering& l, std::int64_t rank) {
  if (l.has_attribute("output_size") && !l.integers("output_size").empty()) return {};
  if (l.has_attribute("scale_factor")) return {l.real("scale_factor")};
  std::vector<double> factors;
  const char* names[] = {"depth_scale", "height_scale", "width_scale"};
  for (std::int64_t i = std::max<std::int64_t>(5 - rank, 0); i < 3; ++i) {
    if (!l.has_attribute(names[i])) return {};
    factors.push_back(l.real(names[i]));
  }
  return factors;
}

void resize(Lowering& l, const std::string& mode, const std::string& transformation) {
  Attributes attributes{{"mode", mode}, {"coordinate_transformation_mode", transformation}};
  if (mode == "nearest") attributes["nearest_mode"] = std::string("floor");
  if (mode == "cubic") attributes["cubic_coeff_a"] = -0.75F;
  const Dims x = l.dims(0, 3), y = l.result_dims();
  const std::vector<double> factors = factors_of(l, l.rank());
  std::vector<float> scales{1, 1};
  bool whole = factors.size() + 2 != x.size() || y.size() != x.size();
  for (std::size_t i = 0; !whole && i < factors.size(); ++i) {
    scales.push_back(static_cast<float>(factors[i]));
    whole = std::floor(static_cast<double>(scales.back()) * static_cast<double>(x[i + 2])) !=
            static_cast<double>(y[i + 2]);
  }
  // The size where it is all that is known, or what the factor makes of it would be another one.
  std::vector<ValueId> inputs{l.in(), ValueId{}, ValueId{}};
  if (whole) {
    inputs.push_back(l.ints(y));
  } else {
    Tensor table = Tensor::allocate(DType::kFloat32, {static_cast<std::int64_t>(scales.size())});
    std::copy(scales.begin(), scales.end(), table.data<float>());
    inputs[2] = l.constant(std::move(table));
  }
  l.result(0, l.op("Resize", std::move(inputs), std::move(attributes)));
}

void upsample_nearest(Lowering& l) { resize(l, "nearest", "asymmetric"); }

std::string transformation(const Lowering& l) {
  return l.flag("align_corners") ? "align_corners" : "half_pixel";
}

void upsample_linear(Lowering& l) { resize(l, "linear", transformation(l)); }
void upsample_cubic(Lowering& l) { resize(l, "cubic", transformation(l)); }

// dy, x: what each element of dy was made of.
void upsample_grad(Lowering& l, bool linear) {
  const Dims dy = l.dims(0, 3), x = l.dims(1);
  if (x.size() != dy.size()) l.invalid("x and dy have different ranks");
  const std::vector<double> factors = factors_of(l, l.rank());
  const bool corners = linear && l.flag("align_corners");
  std::vector<Tensor> matrices;
  for (std::size_t axis = 2; axis < x.size(); ++axis) {
    const std::int64_t in = x[axis], out = dy[axis];
    if (in < 1 || out < 1) l.invalid("a dimension is 0");
    Tensor matrix = zero_matrix(l, out, in);
    double step = static_cast<double>(in) / static_cast<double>(out);
    if (corners) {
      step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    } else if (factors.size() + 2 == x.size() && factors[axis - 2] > 0) {
      step = 1 / factors[axis - 2];
    }
    for (std::int64_t o = 0; o < out; ++o) {
      float* row = matrix.data<float>() + o * in;
      const auto place = static_cast<double>(o);
      double at = corners || !linear ? place * step : std::max((place + 0.5) * step - 0.5, 0.0);
      at = std::min(at, static_cast<double>(in - 1));
      const auto first = static_cast<std::int64_t>(at);
      const double rest = linear ? at - static_cast<double>(first) : 0;
      row[first] += static_cast<float>(1 - rest);
      row[std::min(first + 1, in - 1)] += static_cast<float>(rest);
    }
    matrices.push_back(std::move(matrix));
  }
  l.result(0, apply_matrices(l, l.in(0), l.dtype(0), matrices, true, l.rank(0)));
}

void upsample_linear_grad(Lowering& l) { upsample_grad(l, true); }

// Where each element of x is read by a block of dy, those are added up.
void upsample_nearest_grad(Lowering& l) {
  const Dims dy = l.dims(0, 3), x = l.dims(1);
  if (x.size() != dy.size()) l.invalid("x and dy have different ranks");
  Dims split{dy[0], dy[1]};
  Sizes axes;
  for (std::size_t i = 2; i < x.size(); ++i) {
    if (x[i] == 0 || dy[i] % x[i] != 0) return upsample_grad(l, false);
    split.push_back(x[i]);
    split.push_back(dy[i] / x[i]);
    axes.push_back(static_cast<std::int64_t>(split.size()) - 1);
  }
  l.result(0, l.reduce("ReduceSum", l.reshape(l.in(0), split), axes, false));
}

}  // namespace

void register_resizing(Registry& r) {
  r.add({"reflection_pad1d", "reflection_pad2d"}, reflection_pad);
  r.add({"reflection_pad1d_grad", "reflection_pad2d_grad"}, reflection_pad_grad);
  r.add({"replication_pad1d", "replication_pad2d"}, replication_pad);
  r.add({"replication_pad1d_grad", "replication_pad2d_grad"}, replication_pad_grad);
  r.add({"upsample_nearest_1d", "upsample_nearest_2d", "upsample_nearest_3d", "upsample_nearest"},
        upsample_nearest);
  r.add({"upsample_linear_1d", "upsample_bilinear_2d", "upsample_trilinear_3d"}, upsample_linear);
  r.add("upsample_bicubic_2d", upsample_cubic);
  r.add({"upsample_nearest_1d_grad", "upsample_nearest_2d_grad", "upsample_nearest_3d_grad"},
        upsample_nearest_grad);
  r.add({"upsample_linear_1d_grad", "upsample_bilinear_2d_grad", "upsample_trilinear_3d_grad"},
        upsample_linear_grad);
}

}  // namespace xrt::oneflow
