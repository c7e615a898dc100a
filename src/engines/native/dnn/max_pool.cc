// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/max_pool.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/kernels/common/window.h"
#include "engines/native/kernels/common/windows.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "engines/native/scratch.h"
#include "xrt/error.h"

namespace xrt::native::dnn {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();
constexpr std::size_t kAxes = 3;

// The window over a depth, a height and a width; of fewer spatial dimensions the first are 1.
struct Axis {
  std::int64_t size = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  std::int64_t start(std::int64_t o) const { return o * stride - pad; }
  // Steps first … past − 1 of the window that begins at `start` lie in the image.
  std::pair<std::int64_t, std::int64_t> inside(std::int64_t start) const {
    return {steps_below(start, dilation, 0, kernel), steps_below(start, dilation, size, kernel)};
  }
};
using Axes = std::array<Axis, kAxes>;

Axes axes_of(const Dims& spatial, const Window& w) {
  Axes axes;
  for (std::size_t i = 0; i < spatial.size(); ++i) {
    axes[kAxes - spatial.size() + i] = {spatial[i],   w.output[i],    w.kernel[i],
                                        w.strides[i], w.dilations[i], w.pads_begin[i]};
  }
  return axes;
}

// y = the maxima of rows of n elements, element by element; −∞ of no rows.
void max_rows(const std::vector<const float*>& rows, float* y, std::int64_t n) {
  if (rows.empty()) {
    std::fill(y, y + n, kLeast);
  } else {
    vector_ops().max_rows(rows.data(), static_cast<std::int64_t>(rows.size()), y, n);
  }
}

// The lines that the windows of one line of Y cover, each of `length` numbers.
void covered_lines(const float* x, const Axes& a, std::int64_t line, std::int64_t length,
                   std::vector<const float*>& lines) {
  const auto& [d, h, w] = a;
  const std::int64_t top = h.start(line % h.out);
  const std::int64_t front = d.start(line / h.out % d.out);
  const float* image = x + line / h.out / d.out * d.size * h.size * length;
  const auto [d_first, d_past] = d.inside(front);
  const auto [h_first, h_past] = h.inside(top);
  lines.clear();
  for (std::int64_t i = d_first; i < d_past; ++i) {
    for (std::int64_t j = h_first; j < h_past; ++j) {
      lines.push_back(image + ((front + i * d.dilation) * h.size + top + j * h.dilation) * length);
    }
  }
}

// Images of `channels` numbers per pixel.
void pool_pixels(const KernelContext& k, const float* x, float* y, const Axes& a,
                 std::int64_t images, std::int64_t channels) {
  const Axis& d = a[0];
  const Axis& h = a[1];
  const Axis& w = a[2];
  const std::int64_t length = w.size * channels;
  // Windows that share much have the maxima of their columns made first, and once.
  const std::int64_t column = d.kernel * h.kernel;
  const bool columns_first = column * w.size + w.kernel * w.out < column * w.kernel * w.out * 3 / 4;
  const std::int64_t grain =
      std::max<std::int64_t>(8192 / std::max<std::int64_t>(w.out * channels, 1), 1);
  k.parallel_for(images * d.out * h.out, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<const float*> lines;
    std::vector<const float*> pixels;
    Scratch<float> highest(columns_first ? static_cast<std::size_t>(length) : 0);
    for (std::int64_t line = begin; line < end; ++line) {
      covered_lines(x, a, line, length, lines);
      if (columns_first && !lines.empty()) {
        max_rows(lines, highest.data(), length);
        lines.assign(1, highest.data());
      }
      for (std::int64_t o = 0; o < w.out; ++o) {
        const std::int64_t left = w.start(o);
        const auto [first, past] = w.inside(left);
        pixels.clear();
        for (const float* from : lines) {
          for (std::int64_t m = first; m < past; ++m) {
            pixels.push_back(from + (left + m * w.dilation) * channels);
          }
        }
        max_rows(pixels, y + (line * w.out + o) * channels, channels);
      }
    }
  });
}

// Images of one number per pixel: the maxima of columns, then along the line.
void pool_planes(const KernelContext& k, const float* x, float* y, const Axes& a,
                 std::int64_t planes) {
  const Axis& d = a[0];
  const Axis& h = a[1];
  const Axis& w = a[2];
  const std::int64_t grain = std::max<std::int64_t>(8192 / std::max<std::int64_t>(w.size, 1), 1);
  k.parallel_for(planes * d.out * h.out, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<const float*> lines;
    Scratch<float> highest(static_cast<std::size_t>(w.size));
    for (std::int64_t line = begin; line < end; ++line) {
      covered_lines(x, a, line, w.size, lines);
      max_rows(lines, highest.data(), w.size);
      float* out = y + line * w.out;
      std::fill(out, out + w.out, kLeast);
      for (std::int64_t m = 0; m < w.kernel; ++m) {
        // Of windows first … past − 1 the step lies in the image.
        const std::int64_t start = m * w.dilation - w.pad;
        const std::int64_t first = steps_below(start, w.stride, 0, w.out);
        const std::int64_t past = steps_below(start, w.stride, w.size, w.out);
        if (first >= past) continue;
        vector_ops().max_every(highest.data() + start + first * w.stride, w.stride, out + first,
                               past - first);
      }
    }
  });
}

class FloatMaxPoolKernel final : public Kernel {
 public:
  explicit FloatMaxPoolKernel(const KernelCreateContext& context)
      : window_(WindowAttributes::of(context.node())),
        global_(context.node().op.starts_with("Global")),
        channels_last_(!context.node().domain.empty()) {}

  void run(KernelContext& context) const override {
    const Tensor& x = context.input(0);
    if (x.rank() < 3 || x.rank() > kAxes + 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X has rank " + std::to_string(x.rank()) + "; 3 to 5 are pooled");
    }
    const Dims& dims = x.dims();
    const std::int64_t channels = channels_last_ ? dims.back() : dims[1];
    const Dims spatial = channels_last_ ? Dims(dims.begin() + 1, dims.end() - 1)
                                        : Dims(dims.begin() + 2, dims.end());
    const Window w =
        global_ ? resolve({}, spatial, spatial) : resolve(window_, spatial, window_.kernel);
    Dims y_dims{dims[0]};
    if (!channels_last_) y_dims.push_back(channels);
    y_dims.insert(y_dims.end(), w.output.begin(), w.output.end());
    if (channels_last_) y_dims.push_back(channels);
    Tensor& y = context.output(0, DType::kFloat32, y_dims);
    if (y.count() == 0) return;
    const Axes axes = axes_of(spatial, w);
    if (channels_last_) {
      pool_pixels(context, x.data<float>(), y.data<float>(), axes, dims[0], channels);
    } else {
      pool_planes(context, x.data<float>(), y.data<float>(), axes, dims[0] * channels);
    }
  }

  std::string describe() const override { return "max_pool"; }

 private:
  WindowAttributes window_;
  bool global_;
  bool channels_last_;
};

}  // namespace

std::unique_ptr<Kernel> create_float_max_pool(const KernelCreateContext& context) {
  return std::make_unique<FloatMaxPoolKernel>(context);
}

}  // namespace xrt::native::dnn
