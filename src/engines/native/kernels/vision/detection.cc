// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression, RoiAlign and GridSample.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

// --- NonMaxSuppression --------------------------------------------------------------------------

struct Box {
  float x0, y0, x1, y1;
};

Box read_box(const float* p, bool centre) {
  if (centre) return {p[0] - p[2] / 2, p[1] - p[3] / 2, p[0] + p[2] / 2, p[1] + p[3] / 2};
  return {std::min(p[1], p[3]), std::min(p[0], p[2]), std::max(p[1], p[3]), std::max(p[0], p[2])};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return false;
  const float shared = width * height;
  const float total = (a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0) - shared;
  return total > 0 && shared / total > threshold;
}

float float_input(const KernelContext& k, std::size_t i, float fallback) {
  return k.has_input(i) && k.input(i).count() > 0 ? k.input(i).data<float>()[0] : fallback;
}

Created create_nms(const KernelCreateContext& create) {
  const bool centre = need_int(create.node(), "center_point_box") != 0;
  return make_kernel([centre](KernelContext& k) {
    const Tensor& boxes = k.input(0);
    const Tensor& scores = k.input(1);
    if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dims()[2] != 4 ||
        boxes.dims()[0] != scores.dims()[0] || boxes.dims()[1] != scores.dims()[2]) {
      fail("boxes " + shape_text(boxes.dims()) + " and scores " + shape_text(scores.dims()) +
           " do not fit");
    }
    std::int64_t limit = 0;
    if (k.has_input(2) && k.input(2).count() > 0) limit = ints_input(k, 2)[0];
    const float iou = float_input(k, 3, 0.0F);
    const bool has_threshold = k.has_input(4) && k.input(4).count() > 0;
    const float threshold = float_input(k, 4, 0.0F);
    const std::int64_t classes = scores.dims()[1];
    const std::int64_t count = boxes.dims()[1];
    Scratch<std::array<std::int64_t, 3>> selected;
    const bool selects = limit > 0 && scores.count() > 0;
    Scratch<Box> all(static_cast<std::size_t>(selects ? count : 0));
    Scratch<std::int64_t> order;
    Scratch<std::int64_t> kept;
    TimeCheck time;
    for (std::int64_t batch = 0; selects && batch < boxes.dims()[0]; ++batch) {
      for (std::int64_t i = 0; i < count; ++i) {
        all[i] = read_box(boxes.data<float>() + (batch * count + i) * 4, centre);
      }
      for (std::int64_t c = 0; c < classes; ++c) {
        const float* score = scores.data<float>() + (batch * classes + c) * count;
        time.spend(count);
        order.clear();
        for (std::int64_t i = 0; i < count; ++i) {
          if (!has_threshold || score[i] > threshold) order.push_back(i);
        }
        // A score that is no number is behind all others.
        std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
          if (score[a] > score[b]) return true;
          if (score[a] < score[b]) return false;
          const bool is_a = score[a] == score[a], is_b = score[b] == score[b];
          return is_a == is_b ? a < b : is_a;
        });
        kept.clear();
        for (const std::int64_t i : order) {
          if (static_cast<std::int64_t>(kept.size()) == limit) break;
          time.spend(static_cast<std::int64_t>(kept.size()));
          const bool hidden = std::any_of(kept.begin(), kept.end(), [&](std::int64_t other) {
            return overlap(all[i], all[other], iou);
          });
          if (hidden) continue;
          kept.push_back(i);
          selected.push_back({batch, c, i});
        }
      }
    }
    Tensor& y = k.output(0, DType::kInt64, {static_cast<std::int64_t>(selected.size()), 3});
    for (std::size_t i = 0; i < selected.size(); ++i) {
      std::copy_n(selected[i].data(), 3, y.data<std::int64_t>() + i * 3);
    }
  });
}

// --- RoiAlign -----------------------------------------------------------------------------------

// The four neighbours of a sample and their weights; nothing outside the image.
struct Bilinear {
  std::int64_t offset[4];
  float weight[4];
};

Bilinear bilinear(float y, float x, std::int64_t height, std::int64_t width) {
  if (std::isnan(y) || std::isnan(x)) return {{}, {NAN, NAN, NAN, NAN}};
  if (y < -1 || y > static_cast<float>(height) || x < -1 || x > static_cast<float>(width)) {
    return {};
  }
  y = std::max(y, 0.0F);
  x = std::max(x, 0.0F);
  auto y0 = static_cast<std::int64_t>(y);
  auto x0 = static_cast<std::int64_t>(x);
  const std::int64_t y1 = std::min(y0 + 1, height - 1);
  const std::int64_t x1 = std::min(x0 + 1, width - 1);
  if (y0 >= height - 1) y = static_cast<float>(y0 = height - 1);
  if (x0 >= width - 1) x = static_cast<float>(x0 = width - 1);
  const float fy = y - static_cast<float>(y0);
  const float fx = x - static_cast<float>(x0);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
}

Created create_roi_align(const KernelCreateContext& create) {
  const Node& node = create.node();
  const bool maximum = need_string(node, "mode") == "max";
  const bool half_pixel = need_string(node, "coordinate_transformation_mode") == "half_pixel";
  const std::int64_t out_h = need_int(node, "output_height");
  const std::int64_t out_w = need_int(node, "output_width");
  const std::int64_t ratio = need_int(node, "sampling_ratio");
  const float scale = need_float(node, "spatial_scale");
  if (out_h < 1 || out_w < 1 || ratio < 0) fail("an attribute is not positive");
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& rois = k.input(1);
    if (x.rank() != 4 || rois.rank() != 2 || rois.dims()[1] != 4) fail("a shape does not fit");
    const std::int64_t count = rois.dims()[0];
    const std::vector<std::int64_t> batch = ints_input(k, 2);
    if (static_cast<std::int64_t>(batch.size()) != count) fail("one batch index per region");
    for (const std::int64_t b : batch) {
      if (b < 0 || b >= x.dims()[0]) fail("a batch index is outside the batch");
    }
    const std::int64_t channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
    Tensor& y = k.output(0, x.dtype(), {count, channels, out_h, out_w});
    if (y.count() == 0) return;  // of no channels there may be any number of bins
    if (x.count() == 0) fail("an empty image cannot be sampled");
    const Tensor wide = converted(x, DType::kFloat32);
    const Tensor regions = converted(rois, DType::kFloat32);
    k.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      Scratch<Bilinear> samples;
      TimeCheck time;
      for (std::int64_t r = begin; r < end; ++r) {
        const float* roi = regions.data<float>() + r * 4;
        const float shift = half_pixel ? 0.5F : 0.0F;
        const float x0 = roi[0] * scale - shift;
        const float y0 = roi[1] * scale - shift;
        float roi_w = roi[2] * scale - shift - x0;
        float roi_h = roi[3] * scale - shift - y0;
        if (!half_pixel) {
          roi_w = std::max(roi_w, 1.0F);
          roi_h = std::max(roi_h, 1.0F);
        }
        const float bin_h = roi_h / static_cast<float>(out_h);
        const float bin_w = roi_w / static_cast<float>(out_w);
        constexpr float kMaxGrid = 4096;
        const auto grid = [&](float bin) {
          const float wanted = ratio > 0 ? static_cast<float>(ratio) : std::ceil(bin);
          if (!(wanted <= kMaxGrid)) fail("a region is too large");
          return static_cast<std::int64_t>(std::max(wanted, 0.0F));
        };
        const std::int64_t grid_h = grid(bin_h);
        const std::int64_t grid_w = grid(bin_w);
        for (std::int64_t bin = 0; bin < out_h * out_w; ++bin) {
          samples.clear();
          const std::int64_t row = bin / out_w;
          for (std::int64_t i = 0; i < grid_h; ++i) {
            for (std::int64_t j = 0; j < grid_w; ++j) {
              const float at_y =
                  y0 + bin_h * (static_cast<float>(row) +
                                (static_cast<float>(i) + 0.5F) / static_cast<float>(grid_h));
              const float at_x =
                  x0 + bin_w * (static_cast<float>(bin % out_w) +
                                (static_cast<float>(j) + 0.5F) / static_cast<float>(grid_w));
              samples.push_back(bilinear(at_y, at_x, height, width));
            }
          }
          for (std::int64_t c = 0; c < channels; ++c) {
            const float* plane = wide.data<float>() + (batch[r] * channels + c) * height * width;
            float sum = 0;
            float best = -HUGE_VALF;
            for (const Bilinear& s : samples) {
              for (int corner = 0; corner < 4; ++corner) {
                const float value = s.weight[corner] * plane[s.offset[corner]];
                sum += value;
                best = std::max(best, value);
              }
            }
            const auto n = static_cast<float>(std::max<std::size_t>(samples.size(), 1));
            const float value = maximum ? (samples.empty() ? 0.0F : best) : sum / n;
            store_float(y.dtype(), &value, 1, y.raw(), (r * channels + c) * out_h * out_w + bin);
            time.spend(4 * static_cast<std::int64_t>(samples.size()));
          }
        }
      }
    });
  });
}

// --- GridSample ---------------------------------------------------------------------------------

enum class Padding : std::uint8_t { kZeros, kBorder, kReflection };
enum class Sampling : std::uint8_t { kLinear, kNearest, kCubic };

double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x > high ? x - high : -1;
  if (distance < 0) return x;
  const double turns = std::floor(distance / range);
  const double rest = distance - turns * range;
  const bool even = std::fmod(turns, 2.0) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

// What one coordinate reads: indices and weights along its axis. Index -1 reads 0.
struct AxisTaps {
  int count = 0;
  std::int64_t index[4];
  double weight[4];
};

AxisTaps axis_taps(double grid, std::int64_t size, bool align, Padding padding, Sampling sampling) {
  const auto n = static_cast<double>(size);
  const double low = align ? 0 : -0.5;
  const double high = align ? n - 1 : n - 0.5;
  double x = align ? (grid + 1) / 2 * (n - 1) : ((grid + 1) * n - 1) / 2;
  if (!std::isfinite(x)) x = x > 0 ? 1e9 : -1e9;
  if (sampling == Sampling::kNearest) x = std::nearbyint(x);
  if (x < low || x > high) {
    // Of a cubic each element that is read is clamped.
    if (padding == Padding::kBorder && sampling != Sampling::kCubic) x = std::clamp(x, 0.0, n - 1);
    if (padding == Padding::kReflection) x = reflect(x, low, high);
  }
  const auto resolve = [&](double at) -> std::int64_t {
    if (at >= 0 && at <= n - 1) return static_cast<std::int64_t>(at);
    if (padding == Padding::kZeros) return -1;
    if (padding == Padding::kReflection) at = reflect(at, low, high);
    return static_cast<std::int64_t>(std::clamp(at, 0.0, n - 1));
  };
  AxisTaps taps;
  const auto add = [&](double at, double weight) {
    taps.index[taps.count] = resolve(at);
    taps.weight[taps.count++] = weight;
  };
  if (sampling == Sampling::kNearest) {
    add(std::nearbyint(x), 1);
    return taps;
  }
  const double base = std::floor(x);
  const double r = x - base;
  if (sampling == Sampling::kLinear) {
    add(base, 1 - r);
    add(base + 1, r);
    return taps;
  }
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  add(base - 1, far(r + 1));
  add(base, near(r));
  add(base + 1, near(1 - r));
  add(base + 2, far(2 - r));
  return taps;
}

Created create_grid_sample(const KernelCreateContext& create) {
  const Node& node = create.node();
  const std::string mode = need_string(node, "mode");
  const std::string pad = need_string(node, "padding_mode");
  const bool align = need_int(node, "align_corners") != 0;
  const Sampling sampling = mode == "nearest"                      ? Sampling::kNearest
                            : mode == "cubic" || mode == "bicubic" ? Sampling::kCubic
                                                                   : Sampling::kLinear;
  const Padding padding = pad == "border"       ? Padding::kBorder
                          : pad == "reflection" ? Padding::kReflection
                                                : Padding::kZeros;
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& grid = k.input(1);
    const std::size_t rank = x.rank() < 3 ? 0 : x.rank() - 2;
    if (rank == 0 || grid.rank() != x.rank() || grid.dims()[0] != x.dims()[0] ||
        grid.dims().back() != static_cast<std::int64_t>(rank)) {
      fail("input " + shape_text(x.dims()) + " and grid " + shape_text(grid.dims()) +
           " do not fit");
    }
    const std::int64_t channels = x.dims()[1];
    const std::int64_t image = product(x.dims(), 2, x.rank());
    Dims dims{x.dims()[0], channels};
    dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
    const std::int64_t points = product(dims, 2, dims.size());
    Tensor& y = k.output(0, x.dtype(), dims);
    if (y.count() == 0) return;
    if (image == 0) fail("an empty image cannot be sampled");
    const DType compute = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const Tensor wide = converted(x, compute);
    const Tensor where = converted(grid, DType::kFloat64);
    k.parallel_for(dims[0] * points, 256, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::pair<std::int64_t, double>> corners, next;
      for (std::int64_t p = begin; p < end; ++p) {
        // The grid names the innermost axis first.
        corners.assign(1, {0, 1.0});
        for (std::size_t a = 0; a < rank; ++a) {
          const double at = where.data<double>()[p * static_cast<std::int64_t>(rank) +
                                                 static_cast<std::int64_t>(rank - 1 - a)];
          const AxisTaps t = axis_taps(at, x.dims()[a + 2], align, padding, sampling);
          next.clear();
          for (const auto& [offset, weight] : corners) {
            for (int i = 0; i < t.count; ++i) {
              if (t.index[i] < 0) continue;
              next.emplace_back(offset * x.dims()[a + 2] + t.index[i], weight * t.weight[i]);
            }
          }
          corners.swap(next);
        }
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t plane = (p / points * channels + c) * image;
          double sum = 0;
          for (const auto& [offset, weight] : corners) {
            sum += weight * (compute == DType::kFloat64
                                 ? wide.data<double>()[plane + offset]
                                 : static_cast<double>(wide.data<float>()[plane + offset]));
          }
          store_double(y.dtype(), &sum, 1, y.raw(),
                       (p / points * channels + c) * points + p % points);
        }
      }
    });
  });
}

}  // namespace

void register_detection_kernels(KernelRegistry& registry) {
  registry.add({.op = "NonMaxSuppression", .create = create_nms});
  registry.add({.op = "RoiAlign",
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create = create_roi_align});
  registry.add({.op = "GridSample",
                .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                .create = create_grid_sample});
}

}  // namespace xrt::native
