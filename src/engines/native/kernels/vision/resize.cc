// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample: nearest, linear and cubic, with every coordinate transformation.
//
// Interpolation is separable: each axis that changes is resized on its own, as a weighted sum of
// the source's slices.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"
#include "ops/sizes/resize_places.h"

namespace xrt::native {

namespace {

enum class Mode : std::uint8_t { kNearest, kLinear, kCubic };
struct Attributes {
  Mode mode = Mode::kNearest;
  ResizeTransform transform = ResizeTransform::kHalfPixel;
  ResizeNearest nearest = ResizeNearest::kPreferFloor;
  double cubic_a = -0.75;
  bool antialias = false;
  bool exclude_outside = false;
  float extrapolation = 0;
  bool has_axes = false;
  std::vector<std::int64_t> axes;
  std::string policy;
};

template <typename E>
E parse_enum(const Node& node, const char* attribute,
             std::optional<E> (*parse)(std::string_view name)) {
  const std::string value = need_string(node, attribute);
  const std::optional<E> found = parse(value);
  if (!found) fail("attribute '" + std::string(attribute) + "' is '" + value + "'");
  return *found;
}

std::optional<Mode> mode_of(std::string_view name) {
  if (name == "nearest") return Mode::kNearest;
  if (name == "linear") return Mode::kLinear;
  if (name == "cubic") return Mode::kCubic;
  return std::nullopt;
}

Attributes parse(const Node& node) {
  Attributes a;
  a.mode = parse_enum<Mode>(node, "mode", mode_of);
  a.transform =
      parse_enum<ResizeTransform>(node, "coordinate_transformation_mode", resize_transform);
  a.nearest = parse_enum<ResizeNearest>(node, "nearest_mode", resize_nearest);
  a.cubic_a = need_float(node, "cubic_coeff_a");
  a.antialias = need_int(node, "antialias") != 0;
  a.exclude_outside = need_int(node, "exclude_outside") != 0;
  a.extrapolation = need_float(node, "extrapolation_value");
  a.has_axes = node.has("axes");
  a.axes = node.attr_ints("axes");
  a.policy = need_string(node, "keep_aspect_ratio_policy");
  return a;
}

// Keys' cubic convolution kernel.
double cubic_weight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The source elements that make up one output element.
struct Taps {
  Scratch<std::int64_t> index;
  Scratch<float> weight;
};

Taps make_taps(const Attributes& a, const ResizedAxis& axis, double x) {
  // Between `base` and `base + 1`; an integer counts as the right end. Far outside all is the edge.
  constexpr double kFar = 1e15;
  x = std::clamp(x, -kFar, kFar);  // NaN stays
  const double base = std::ceil(x) - 1;
  const auto whole = std::isnan(x) ? std::int64_t{0} : static_cast<std::int64_t>(base);
  const double ratio = x - base;
  const double scale = a.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = a.mode == Mode::kLinear ? 1 : 2;
  const auto start = static_cast<std::int64_t>(std::floor(-reach / scale)) + 1;
  Taps taps;
  Scratch<double> weights;
  const auto most = static_cast<std::size_t>(2 - 2 * start);
  taps.index.reserve(most);
  taps.weight.reserve(most);
  weights.reserve(most);
  double sum = 0;
  for (std::int64_t i = start; i < 2 - start; ++i) {
    const double distance = scale * (static_cast<double>(i) - ratio);
    double weight = a.mode == Mode::kLinear ? std::max(0.0, 1 - std::fabs(distance))
                                            : cubic_weight(distance, a.cubic_a);
    const std::int64_t at = whole + i;
    if (a.exclude_outside && (at < 0 || at >= axis.in)) weight = 0;
    if (weight == 0) continue;
    sum += weight;
    taps.index.push_back(std::clamp<std::int64_t>(at, 0, axis.in - 1));
    weights.push_back(weight);
  }
  const bool normalise = a.antialias || a.exclude_outside;
  for (const double w : weights) {
    taps.weight.push_back(static_cast<float>(normalise && sum != 0 ? w / sum : w));
  }
  return taps;
}

std::vector<ResizedAxis> plan_axes(const Attributes& a, const KernelContext& k,
                                   std::size_t roi_input, std::size_t scales_input,
                                   std::size_t sizes_input) {
  const Tensor& x = k.input(0);
  std::vector<std::size_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (a.has_axes) axes = normalize_axes(a.axes, x.rank());
  std::vector<ResizedAxis> plan(x.rank());
  for (std::size_t i = 0; i < x.rank(); ++i) {
    plan[i].in = plan[i].out = x.dims()[i];
    plan[i].length = static_cast<double>(x.dims()[i]);
  }
  const bool has_scales = k.has_input(scales_input) && k.input(scales_input).count() > 0;
  const bool has_sizes = k.has_input(sizes_input) && k.input(sizes_input).count() > 0;
  if (has_scales == has_sizes) fail("exactly one of scales and sizes must be given");
  const auto count = static_cast<std::int64_t>(axes.size());
  if (k.input(has_scales ? scales_input : sizes_input).count() != count) {
    fail("scales or sizes have not one entry per axis");
  }
  if (has_scales) {
    const Tensor scales = converted(k.input(scales_input), DType::kFloat32);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      ResizedAxis& axis = plan[axes[i]];
      axis.scale = static_cast<double>(scales.data<float>()[i]);
      if (!(axis.scale > 0)) fail("a scale is not positive");
      axis.length = static_cast<double>(axis.in) * axis.scale;
      const auto size = resized_size(axis.in, scales.data<float>()[i]);
      if (!size) throw Error(ErrorCode::kResource, "the result is too large");
      axis.out = *size;
    }
  } else {
    const std::vector<std::int64_t> sizes = ints_input(k, sizes_input);
    double factor = a.policy == "not_larger" ? HUGE_VAL : 0;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const double own = static_cast<double>(sizes[i]) / static_cast<double>(plan[axes[i]].in);
      factor = a.policy == "not_larger" ? std::min(factor, own) : std::max(factor, own);
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      ResizedAxis& axis = plan[axes[i]];
      if (sizes[i] < 0) fail("a size is negative");
      if (a.policy == "stretch") {
        axis.out = sizes[i];
        axis.scale = static_cast<double>(sizes[i]) / static_cast<double>(axis.in);
      } else {
        axis.scale = factor;
        constexpr double kMost = 9007199254740992.0;  // 2^53
        const double size = std::floor(factor * static_cast<double>(axis.in) + 0.5);
        if (std::isnan(size)) fail("an axis without elements has no aspect ratio to keep");
        if (size > kMost) throw Error(ErrorCode::kResource, "the result is too large");
        axis.out = static_cast<std::int64_t>(size);
      }
      axis.length = static_cast<double>(axis.out);
    }
  }
  if (a.transform == ResizeTransform::kCrop && k.has_input(roi_input)) {
    const Tensor roi = converted(k.input(roi_input), DType::kFloat32);
    if (roi.count() != 2 * count) fail("the region has not two entries per axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      plan[axes[i]].roi_start = static_cast<double>(roi.data<float>()[i]);
      plan[axes[i]].roi_end = static_cast<double>(roi.data<float>()[axes.size() + i]);
    }
  }
  return plan;
}

void resize_by_places(KernelContext& k, const Tensor& x,
                      const std::vector<Scratch<std::int64_t>>& maps, Tensor& y) {
  const std::size_t last = x.rank() - 1;
  const std::int64_t width = y.dims()[last];
  const std::int64_t rows = y.count() / width;
  const Dims strides = dense_strides(x.dims());
  dispatch_size(element_size(x.dtype()), [&]<typename T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    const std::int64_t* map = maps[last].data();
    bool copies = width == x.dims()[last];  // rows go as they are: channels, for one
    for (std::int64_t i = 0; i < width && copies; ++i) copies = map[i] == i;
    k.parallel_for(rows, std::max<std::int64_t>(8192 / width, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       std::int64_t rest = row;
                       std::int64_t offset = 0;
                       for (std::size_t a = last; a-- > 0;) {
                         offset += maps[a][rest % y.dims()[a]] * strides[a];
                         rest /= y.dims()[a];
                       }
                       const T* from = in + offset;
                       T* to = out + row * width;
                       if (copies) {
                         std::copy_n(from, width, to);
                         continue;
                       }
                       for (std::int64_t i = 0; i < width; ++i) to[i] = from[map[i]];
                     }
                   });
  });
}

// One axis of `x` resized by `taps`; float32.
Tensor resize_axis(KernelContext& k, const Tensor& x, std::size_t axis, const Scratch<Taps>& taps) {
  Dims dims = x.dims();
  const std::int64_t in = dims[axis];
  const auto out = static_cast<std::int64_t>(taps.size());
  dims[axis] = out;
  Tensor y = allocate_checked(DType::kFloat32, dims);
  const std::int64_t inner = product(dims, axis + 1, dims.size());
  const std::int64_t outer = product(dims, 0, axis);
  const auto axpy = vector_ops().axpy;
  const float* source = x.data<float>();
  float* target = y.data<float>();
  if (inner == 1) {
    k.parallel_for(outer, std::max<std::int64_t>(4096 / std::max<std::int64_t>(out, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t o = begin; o < end; ++o) {
                       for (std::int64_t i = 0; i < out; ++i) {
                         const Taps& t = taps[i];
                         float sum = 0;
                         for (std::size_t j = 0; j < t.index.size(); ++j) {
                           sum += t.weight[j] * source[o * in + t.index[j]];
                         }
                         target[o * out + i] = sum;
                       }
                     }
                   });
    return y;
  }
  k.parallel_for(outer * out, std::max<std::int64_t>(8192 / inner, 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) {
                     const Taps& t = taps[row % out];
                     float* to = target + row * inner;
                     std::fill_n(to, inner, 0.0F);
                     for (std::size_t j = 0; j < t.index.size(); ++j) {
                       axpy(t.weight[j], source + (row / out * in + t.index[j]) * inner, to, inner);
                     }
                   }
                 });
  return y;
}

void run_resize(KernelContext& k, const Attributes& a, std::size_t roi_input,
                std::size_t scales_input, std::size_t sizes_input) {
  const Tensor& x = k.input(0);
  const std::vector<ResizedAxis> plan = plan_axes(a, k, roi_input, scales_input, sizes_input);
  Dims dims;
  for (const ResizedAxis& axis : plan) dims.push_back(axis.out);
  Tensor& y = k.output(0, x.dtype(), dims);
  if (y.count() == 0) return;
  if (x.count() == 0) fail("an empty input cannot be resized to " + shape_text(dims));
  if (x.rank() == 0) {
    copy_elements(x.dtype(), x.raw(), 0, y.raw(), 0, 1);
    return;
  }
  // As ONNX Runtime and PyTorch have it, whatever the scales are: nothing changes its size.
  const bool copies = a.transform != ResizeTransform::kCrop && dims == x.dims();
  const auto resized = [&](const ResizedAxis& axis) {
    return !copies &&
           (axis.in != axis.out || axis.scale != 1 || axis.roi_start != 0 || axis.roi_end != 1);
  };
  std::vector<Scratch<bool>> outside(plan.size());
  bool any_outside = false;
  for (std::size_t i = 0; a.transform == ResizeTransform::kCrop && i < plan.size(); ++i) {
    outside[i].resize(static_cast<std::size_t>(plan[i].out));
    for (std::int64_t j = 0; resized(plan[i]) && j < plan[i].out; ++j) {
      const double at = resized_place(a.transform, plan[i], j);
      outside[i][j] = at < 0 || at > static_cast<double>(plan[i].in - 1);
      any_outside = any_outside || outside[i][j];
    }
  }
  if (a.mode == Mode::kNearest) {
    std::vector<Scratch<std::int64_t>> maps(plan.size());
    for (std::size_t i = 0; i < plan.size(); ++i) {
      for (std::int64_t j = 0; j < plan[i].out; ++j) {
        maps[i].push_back(
            resized(plan[i])
                ? nearest_element(a.nearest, resized_place(a.transform, plan[i], j), plan[i].in)
                : j);
      }
    }
    resize_by_places(k, x, maps, y);
  } else {
    Tensor value = converted(x, DType::kFloat32);
    // The innermost axes last: what they work on is then as small as possible only for
    // enlargements, but each earlier pass is vectorised along them.
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (!resized(plan[i])) continue;
      Scratch<Taps> taps;
      for (std::int64_t j = 0; j < plan[i].out; ++j) {
        taps.push_back(make_taps(a, plan[i], resized_place(a.transform, plan[i], j)));
      }
      value = resize_axis(k, value, i, taps);
    }
    if (is_integer(x.dtype())) {
      // Integers are rounded, and kept in their range.
      const auto bits = bit_width(x.dtype());
      const bool is_signed = is_signed_integer(x.dtype());
      const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
      const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1;
      for (std::int64_t i = 0; i < y.count(); ++i) {
        const double v =
            std::clamp(std::nearbyint(static_cast<double>(value.data<float>()[i])), low, high);
        store_double(y.dtype(), &v, 1, y.raw(), i);
      }
    } else {
      store_float(y.dtype(), value.data<float>(), y.count(), y.raw(), 0);
    }
  }
  if (!any_outside) return;
  const double fill = static_cast<double>(a.extrapolation);
  for (std::int64_t e = 0; e < y.count(); ++e) {
    std::int64_t rest = e;
    bool out = false;
    for (std::size_t i = plan.size(); i-- > 0;) {
      out = out || outside[i][rest % plan[i].out];
      rest /= plan[i].out;
    }
    if (out) store_double(y.dtype(), &fill, 1, y.raw(), e);
  }
}

}  // namespace

void register_resize_kernels(KernelRegistry& registry) {
  registry.add({.op = "Resize",
                .supports =
                    [](const NodeView& n) {
                      return need_string(n.node(), "mode") == "nearest"
                                 ? n.check_input(0, kByteTypes)
                                 : n.check_input(0, kNumericTypes);
                    },
                .create =
                    [](const KernelCreateContext& create) {
                      return make_kernel([a = parse(create.node())](KernelContext& k) {
                        run_resize(k, a, 1, 2, 3);
                      });
                    }});
}

}  // namespace xrt::native
