// SPDX-License-Identifier: Apache-2.0
// Means of bytes. Of domain kDomain, with the attributes of the standard op and
//   channels_last (int)   1: X and Y are stored as (batch, spatial …, channels)
//   x_zero (int)          X's zero point
//   scale, shift (floats) Y = round(mean(X - x_zero) * scale + shift), saturated
//   to (int)              the element type of Y
// Int8AveragePool; Int8GlobalAverage has no window and covers all of X.
#include <algorithm>
#include <array>
#include <vector>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/window.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native::dnn {
namespace {

constexpr std::int64_t kChannels = 256;  // at a time
constexpr std::size_t kRows = 63;        // pixels added up at a time

struct Averaging {
  WindowAttributes window;
  bool global = false;
  bool channels_last = false;
  bool count_pads = false;
  std::int32_t x_zero = 0;
  float scale = 1;
  float shift = 0;
  DType to = DType::kUInt8;
};

// A window over three spatial dimensions; those that are not there have one element.
struct Box {
  std::array<std::int64_t, 3> x{1, 1, 1}, y{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1},
      begin{0, 0, 0};
};

Box box_of(const Averaging& how, const Dims& spatial) {
  const Window w =
      how.global ? resolve({}, spatial, spatial) : resolve(how.window, spatial, how.window.kernel);
  Box box;
  const std::size_t first = 3 - spatial.size();
  for (std::size_t i = 0; i < spatial.size(); ++i) {
    box.x[first + i] = spatial[i];
    box.y[first + i] = w.output[i];
    box.kernel[first + i] = w.kernel[i];
    box.stride[first + i] = w.strides[i];
    box.begin[first + i] = w.pads_begin[i];
  }
  return box;
}

// The part of a window that lies inside of X, per dimension: [from, to).
struct Inside {
  std::array<std::int64_t, 3> from, to;
  std::int64_t count() const { return (to[0] - from[0]) * (to[1] - from[1]) * (to[2] - from[2]); }
};

Inside inside_of(const Box& box, std::int64_t pixel) {
  Inside in{};
  for (std::size_t d = 3; d-- > 0;) {
    const std::int64_t start = pixel % box.y[d] * box.stride[d] - box.begin[d];
    pixel /= box.y[d];
    in.from[d] = std::max<std::int64_t>(0, start);
    in.to[d] = std::max(in.from[d], std::min(box.x[d], start + box.kernel[d]));
  }
  return in;
}

void average(KernelContext& k, const Averaging& how) {
  const Tensor& x = k.input(0);
  Dims dims = x.dims();
  if (how.channels_last) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  const std::int64_t channels = dims[1];
  const Box box = box_of(how, Dims(dims.begin() + 2, dims.end()));
  for (std::size_t i = 2; i < dims.size(); ++i) dims[i] = box.y[3 - (dims.size() - i)];
  Dims stored = dims;
  if (how.channels_last) std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
  Tensor& y = k.output(0, how.to, stored);
  if (y.count() == 0) return;
  const std::int64_t pixels = box.y[0] * box.y[1] * box.y[2];
  const std::int64_t area = box.x[0] * box.x[1] * box.x[2];
  const std::int64_t taps = box.kernel[0] * box.kernel[1] * box.kernel[2];
  // A pixel of the result of up to kChannels channels; in plain layout one of one channel.
  const std::int64_t width = how.channels_last ? std::min(channels, kChannels) : 1;
  const std::int64_t parts = (channels + width - 1) / width;
  const VectorOps& ops = vector_ops();
  const auto accumulate = ops.accumulate_bytes[x.dtype() == DType::kInt8 ? 1 : 0];
  const bool is_signed = how.to == DType::kInt8;
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (width * taps));
  k.parallel_for(dims[0] * parts * pixels, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int32_t, kChannels> sums;
    std::array<const void*, kRows> rows;
    for (; begin < end; ++begin) {
      const std::int64_t pixel = begin % pixels;
      const std::int64_t first = begin / pixels % parts * width;
      const std::int64_t image = begin / (pixels * parts) * channels;
      const std::int64_t n = std::min(width, channels - first);
      const Inside in = inside_of(box, pixel);
      const std::int64_t stride = how.channels_last ? channels : 1;
      const std::byte* base = from + image * area + (how.channels_last ? first : first * area);
      std::fill_n(sums.begin(), n, -static_cast<std::int32_t>(in.count()) * how.x_zero);
      std::size_t count = 0;
      for (std::int64_t d = in.from[0]; d < in.to[0]; ++d) {
        for (std::int64_t h = in.from[1]; h < in.to[1]; ++h) {
          const std::byte* row = base + (d * box.x[1] + h) * box.x[2] * stride;
          for (std::int64_t w = in.from[2]; w < in.to[2]; ++w) {
            rows[count++] = row + w * stride;
            if (count < rows.size()) continue;
            accumulate(rows.data(), kRows, sums.data(), n);
            count = 0;
          }
        }
      }
      accumulate(rows.data(), static_cast<std::int64_t>(count), sums.data(), n);
      const std::int64_t divisor = how.count_pads ? taps : in.count();
      ops.round_sums(sums.data(),
                     to + image * pixels +
                         (how.channels_last ? pixel * channels + first : first * pixels + pixel),
                     n, how.scale / static_cast<float>(std::max<std::int64_t>(1, divisor)),
                     how.shift, is_signed ? -128.0F : 0.0F, is_signed ? 127.0F : 255.0F);
    }
  });
}

std::unique_ptr<Kernel> create_average(const KernelCreateContext& create) {
  const Node& node = create.node();
  Averaging how;
  how.global = node.op == "Int8GlobalAverage";
  if (!how.global) how.window = WindowAttributes::of(node);
  how.channels_last = node.attr_int("channels_last", 0) != 0;
  how.count_pads = node.attr_int("count_include_pad", 0) != 0;
  how.x_zero = static_cast<std::int32_t>(node.attr_int("x_zero", 0));
  how.scale = node.attr_float("scale", 1);
  how.shift = node.attr_float("shift", 0);
  how.to = static_cast<DType>(node.attr_int("to", 0));
  return make_kernel([how](KernelContext& k) { average(k, how); });
}

}  // namespace

void register_int8_pool(KernelRegistry& registry) {
  for (const char* op : {"Int8AveragePool", "Int8GlobalAverage"}) {
    registry.add({.domain = std::string(kDomain), .op = op, .create = create_average});
  }
}

}  // namespace xrt::native::dnn
