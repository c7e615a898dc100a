// SPDX-License-Identifier: Apache-2.0
// Conv, ConvTranspose, DeformConv, CausalConvWithState and Col2Im of any rank and type.
#include "engines/native/kernels/nn/conv.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/gemm.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/nn/patches.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

// Of the elements that windows read, one behind the other.
constexpr std::int64_t kMostColumnBytes = std::int64_t{64} << 20;

void store_wide(const Tensor& wide, Tensor& y) {
  if (wide.raw() != y.raw()) {
    store_float(y.dtype(), wide.data<float>(), y.count(), y.raw(), 0);
  }
}

// A convolution, or a transposed one, row by row of the result: each element of the window adds a
// part of a row of the image to it. x has the channels of the groups one behind the other.
struct RowConvolution {
  const Window& window;
  Dims from, to;                                   // spatial dimensions of x and y
  std::int64_t groups, in_channels, out_channels;  // channels of a group of x, and of y
  // Where w has the window for channel `c` of a group of x and channel `o` of y.
  std::int64_t filter_step_in, filter_step_group, filter_step_out;

  template <bool kTransposed>
  void run(const KernelContext& context, const Tensor& x, const Tensor& w, const Tensor* bias,
           Tensor& y) const;

 private:
  template <bool kTransposed>
  bool add_line(const float* image, const float* filter, std::int64_t line, const Dims& at,
                float* sums) const;
};

// What the `line`-th row of a window's elements adds to the row of the result with the outer
// coordinates `at`; false where it lies outside of the image.
template <bool kTransposed>
bool RowConvolution::add_line(const float* image, const float* filter, std::int64_t line,
                              const Dims& at, float* sums) const {
  const std::size_t last = from.size() - 1;
  std::int64_t rest = line;
  std::int64_t scale = from[last];
  for (std::size_t a = last; a-- > 0;) {
    const std::int64_t tap = rest % window.kernel[a] * window.dilations[a] - window.pads_begin[a];
    std::int64_t p = at[a] * window.strides[a] + tap;
    if constexpr (kTransposed) {
      if ((at[a] - tap) % window.strides[a] != 0) return false;
      p = (at[a] - tap) / window.strides[a];
    }
    if (p < 0 || p >= from[a]) return false;
    image += p * scale;
    scale *= from[a];
    rest /= window.kernel[a];
  }
  const VectorOps& vector = vector_ops();
  const std::int64_t stride = window.strides[last];
  const std::int64_t taps = window.kernel[last];
  // One side is walked element by element, the other one in steps of the stride.
  const std::int64_t dense = kTransposed ? from[last] : to[last];
  const std::int64_t stepped = kTransposed ? to[last] : from[last];
  std::fill_n(sums, to[last], 0.0F);
  for (std::int64_t t = 0; t < taps; ++t) {
    const std::int64_t column = t * window.dilations[last] - window.pads_begin[last];
    const std::int64_t begin = column >= 0 ? 0 : (-column + stride - 1) / stride;
    const std::int64_t end =
        column >= stepped ? 0 : std::min(dense, (stepped - 1 - column) / stride + 1);
    if (begin >= end) continue;
    const float factor = filter[line * taps + t];
    const std::int64_t at_dense = begin;
    const std::int64_t at_stepped = column + begin * stride;
    const float* read = image + (kTransposed ? at_dense : at_stepped);
    float* write = sums + (kTransposed ? at_stepped : at_dense);
    if (stride == 1) {
      vector.axpy(factor, read, write, end - begin);
      continue;
    }
    for (std::int64_t i = 0; i < end - begin; ++i) {
      write[kTransposed ? i * stride : i] += factor * read[kTransposed ? i : i * stride];
    }
  }
  return true;
}

template <bool kTransposed>
void RowConvolution::run(const KernelContext& context, const Tensor& x, const Tensor& w,
                         const Tensor* bias, Tensor& y) const {
  const std::size_t last = from.size() - 1;
  const std::int64_t row = to[last];
  const std::int64_t rows = element_count(to) / row;
  const std::int64_t lines = element_count(window.kernel) / window.kernel[last];
  const std::int64_t image_size = element_count(from);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    // The sums of one line are added to those of all: of millions of terms in one float little is
    // left of the small ones.
    Scratch<float> sums(static_cast<std::size_t>(row));
    Dims at(last);
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t rest = r % rows;
      for (std::size_t a = last; a-- > 0;) {
        at[a] = rest % to[a];
        rest /= to[a];
      }
      const std::int64_t channel = r / rows % out_channels;
      const std::int64_t group = channel / (out_channels / groups);
      const std::int64_t plane = (r / rows / out_channels * groups + group) * in_channels;
      const std::int64_t filter =
          group * filter_step_group + channel % (out_channels / groups) * filter_step_out;
      float* out = y.data<float>() + r * row;
      std::fill_n(out, row, bias == nullptr ? 0.0F : bias->data<float>()[channel]);
      for (std::int64_t c = 0; c < in_channels; ++c) {
        const float* image = x.data<float>() + (plane + c) * image_size;
        for (std::int64_t line = 0; line < lines; ++line) {
          if (add_line<kTransposed>(image, w.data<float>() + filter + c * filter_step_in, line, at,
                                    sums.data())) {
            vector_ops().axpy(1, sums.data(), out, row);
          }
        }
        WorkScope::check_time();
      }
    }
  };
  context.parallel_for(x.dims()[0] * out_channels * rows, 1, part);
}

}  // namespace

ConvPlan plan_conv(const WindowAttributes& attributes, std::int64_t groups, const Dims& x,
                   const Dims& w) {
  if (x.size() < 3 || w.size() != x.size()) {
    fail("input " + shape_text(x) + " and weight " + shape_text(w) + " have no spatial axes");
  }
  if (groups < 1 || x[1] % groups != 0 || w[0] % groups != 0 || w[1] != x[1] / groups) {
    fail("input " + shape_text(x) + ", weight " + shape_text(w) + " and " + std::to_string(groups) +
         " groups do not fit");
  }
  ConvPlan plan{resolve(attributes, spatial_dims(x), spatial_dims(w)), groups, {x[0], w[0]}};
  plan.output.insert(plan.output.end(), plan.window.output.begin(), plan.window.output.end());
  return plan;
}

void convolve(const KernelContext& context, const ConvPlan& plan, const Tensor& x, const Tensor& w,
              const Tensor* bias, Tensor& y) {
  if (y.count() == 0) return;
  const Patches patches(plan.window, spatial_dims(x.dims()));
  const std::int64_t in_channels = w.dims()[1];
  const std::int64_t out_channels = w.dims()[0] / plan.groups;
  const std::int64_t depth = in_channels * patches.kernel_size;
  if (bias != nullptr && bias->count() != w.dims()[0]) fail("the bias has another size");
  if (x.dtype() == DType::kFloat32 && patches.kernel_size >= kWideWindow) {
    const RowConvolution rows{plan.window,         patches.image,        plan.window.output,
                              plan.groups,         in_channels,          w.dims()[0],
                              patches.kernel_size, out_channels * depth, depth};
    return rows.run<false>(context, x, w, bias, y);
  }
  // Some windows at a time: far padding makes many of them from a small image.
  const std::int64_t column_bytes = std::max<std::int64_t>(
      static_cast<std::int64_t>(byte_count(x.dtype(), Dims{depth + out_channels})), 1);
  const std::int64_t at_once =
      std::clamp<std::int64_t>(kMostColumnBytes / column_bytes, 1, patches.windows);
  Tensor columns = allocate_checked(x.dtype(), {depth, at_once});
  Tensor products =
      at_once < patches.windows ? allocate_checked(x.dtype(), {out_channels, at_once}) : Tensor();
  dispatch_number(x.dtype(), [&]<typename T>() {
    T* matrix = columns.data<T>();
    for (std::int64_t image = 0; image < x.dims()[0] * plan.groups; ++image) {
      const std::int64_t group = image % plan.groups;
      const T* source = x.data<T>() + image * in_channels * patches.image_size;
      T* out = y.data<T>() + image * out_channels * patches.windows;
      for (std::int64_t begin = 0; begin < patches.windows; begin += at_once) {
        const Patches::Range range{begin, std::min(begin + at_once, patches.windows)};
        context.parallel_for(in_channels, 1, [&](std::int64_t first, std::int64_t end) {
          for (std::int64_t c = first; c < end; ++c) {
            patches.gather(source + c * patches.image_size, T{0}, range,
                           matrix + c * patches.kernel_size * range.size());
          }
        });
        T* made = products.defined() ? products.data<T>() : out;
        multiply(context, out_channels, range.size(), depth,
                 w.data<T>() + group * out_channels * depth, {depth, 1}, matrix, {range.size(), 1},
                 made);
        if (!products.defined()) continue;
        for (std::int64_t o = 0; o < out_channels; ++o) {
          std::copy_n(made + o * range.size(), range.size(), out + o * patches.windows + begin);
        }
      }
      if (bias == nullptr) continue;
      for (std::int64_t o = 0; o < out_channels; ++o) {
        const T shift = bias->data<T>()[group * out_channels + o];
        for (std::int64_t i = 0; i < patches.windows; ++i) {
          T& sum = out[o * patches.windows + i];
          if constexpr (std::is_integral_v<T>) {  // which wraps
            using Unsigned = std::make_unsigned_t<T>;
            sum = static_cast<T>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(shift));
          } else {
            sum += shift;
          }
        }
      }
    }
  });
}

namespace {

Created create_conv(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  const std::int64_t groups = need_int(create.node(), "group");
  return make_kernel([attributes, groups](KernelContext& k) {
    const Tensor& x = k.input(0);
    const ConvPlan plan = plan_conv(attributes, groups, x.dims(), k.input(1).dims());
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), plan.output);
    Tensor wide = compute == x.dtype() ? y : allocate_checked(compute, plan.output);
    const Tensor bias = k.has_input(2) ? converted(k.input(2), compute) : Tensor();
    convolve(k, plan, converted(x, compute), converted(k.input(1), compute),
             bias.defined() ? &bias : nullptr, wide);
    store_wide(wide, y);
  });
}

// --- ConvTranspose ------------------------------------------------------------------------------

struct TransposeAttributes {
  WindowAttributes window;
  std::vector<std::int64_t> output_padding, output_shape;
  std::int64_t groups;
};

// The window with which a convolution would take the output back to the input.
Patches transposed_patches(const TransposeAttributes& a, const Dims& spatial, const Dims& kernel) {
  check_kernel(a.window, kernel);
  const std::size_t rank = spatial.size();
  const auto entry = [](const std::vector<std::int64_t>& list, std::size_t i,
                        std::int64_t fallback) { return i < list.size() ? list[i] : fallback; };
  Window w;
  w.kernel = kernel;
  w.output = spatial;
  Dims image;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t stride = entry(a.window.strides, i, 1);
    const std::int64_t dilation = entry(a.window.dilations, i, 1);
    if (stride < 1 || dilation < 1) fail("strides and dilations must be positive");
    const std::int64_t full =
        stride * (spatial[i] - 1) + entry(a.output_padding, i, 0) + (kernel[i] - 1) * dilation + 1;
    std::int64_t begin = entry(a.window.pads, i, 0);
    std::int64_t size = full - begin - entry(a.window.pads, rank + i, 0);
    const TransposedAxis axis{stride, (kernel[i] - 1) * dilation + 1,
                              entry(a.output_padding, i, 0)};
    if (!a.output_shape.empty()) {
      size = a.output_shape[a.output_shape.size() - rank + i];
      begin = transposed_padding(a.window.auto_pad, axis, spatial[i], size).begin;
    } else if (is_same(a.window.auto_pad)) {
      const TransposedPadding padding = transposed_same_padding(a.window.auto_pad, axis);
      begin = padding.begin;
      size = full - padding.begin - padding.end;
    }
    if (size < 0) fail("the padding is larger than the output");
    w.strides.push_back(stride);
    w.dilations.push_back(dilation);
    w.pads_begin.push_back(begin);
    w.pads_end.push_back(0);
    image.push_back(size);
  }
  return {std::move(w), std::move(image)};
}

Created create_conv_transpose(const KernelCreateContext& create) {
  const Node& node = create.node();
  const TransposeAttributes attributes{WindowAttributes::of(node), node.attr_ints("output_padding"),
                                       node.attr_ints("output_shape"), need_int(node, "group")};
  return make_kernel([attributes](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& w = k.input(1);
    const std::int64_t groups = attributes.groups;
    if (x.rank() < 3 || w.rank() != x.rank() || groups < 1 || x.dims()[1] != w.dims()[0] ||
        w.dims()[0] % groups != 0) {
      fail("input " + shape_text(x.dims()) + " and weight " + shape_text(w.dims()) + " do not fit");
    }
    const std::size_t rank = x.rank() - 2;
    if (!attributes.output_shape.empty() && attributes.output_shape.size() < rank) {
      fail("'output_shape' has not one entry per spatial axis");
    }
    const Patches patches =
        transposed_patches(attributes, spatial_dims(x.dims()), spatial_dims(w.dims()));
    const std::int64_t in_channels = w.dims()[0] / groups;
    const std::int64_t out_channels = w.dims()[1];
    Dims dims{x.dims()[0], out_channels * groups};
    dims.insert(dims.end(), patches.image.begin(), patches.image.end());
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), dims);
    if (y.count() == 0) return;
    Tensor wide = compute == x.dtype() ? y : allocate_checked(compute, dims);
    const Tensor wx = converted(x, compute);
    const Tensor ww = converted(w, compute);
    const Tensor bias = k.has_input(2) ? converted(k.input(2), compute) : Tensor();
    if (bias.defined() && bias.count() != dims[1]) fail("the bias has another size");
    const std::int64_t depth = out_channels * patches.kernel_size;
    if (compute == DType::kFloat32 && patches.kernel_size >= kWideWindow && wide.count() > 0) {
      const RowConvolution rows{
          patches.window, spatial_dims(x.dims()), patches.image,      groups, in_channels, dims[1],
          depth,          in_channels * depth,    patches.kernel_size};
      rows.run<true>(k, wx, ww, bias.defined() ? &bias : nullptr, wide);
      store_wide(wide, y);
      return;
    }
    Tensor columns = allocate_checked(compute, {depth, patches.windows});
    dispatch_float(compute, [&]<typename T>() {
      for (std::int64_t image = 0; image < dims[0] * groups; ++image) {
        const std::int64_t group = image % groups;
        T* matrix = columns.data<T>();
        multiply(k, depth, patches.windows, in_channels, ww.data<T>() + group * in_channels * depth,
                 {1, depth}, wx.data<T>() + image * in_channels * patches.windows,
                 {patches.windows, 1}, matrix);
        T* out = wide.data<T>() + image * out_channels * patches.image_size;
        k.parallel_for(out_channels, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t o = begin; o < end; ++o) {
            T* plane = out + o * patches.image_size;
            const T start = bias.defined() ? bias.data<T>()[group * out_channels + o] : T{0};
            std::fill_n(plane, patches.image_size, start);
            patches.scatter_add(matrix + o * patches.kernel_size * patches.windows, plane);
          }
        });
      }
    });
    store_wide(wide, y);
  });
}

// --- DeformConv ---------------------------------------------------------------------------------

// Multilinear interpolation at `at`; outside the image reads 0.
template <typename T>
T sample(const T* image, const Dims& dims, const std::vector<double>& at) {
  const std::size_t rank = dims.size();
  double sum = 0;
  for (std::size_t corner = 0; corner < std::size_t{1} << rank; ++corner) {
    double weight = 1;
    std::int64_t offset = 0;
    bool inside = true;
    for (std::size_t a = 0; a < rank; ++a) {
      const double low = std::floor(at[a]);
      const bool upper = (corner >> a & 1U) != 0;
      const double fraction = at[a] - low;
      weight *= upper ? fraction : 1 - fraction;
      const double position = low + (upper ? 1 : 0);
      inside = inside && position >= 0 && position < static_cast<double>(dims[a]);
      if (inside) offset = offset * dims[a] + static_cast<std::int64_t>(position);
    }
    if (inside && weight != 0) sum += weight * static_cast<double>(image[offset]);
  }
  return static_cast<T>(sum);
}

Created create_deform_conv(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  const std::int64_t groups = need_int(create.node(), "group");
  const std::int64_t offset_groups = need_int(create.node(), "offset_group");
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const ConvPlan plan = plan_conv(attributes, groups, x.dims(), k.input(1).dims());
    const Patches patches(plan.window, spatial_dims(x.dims()));
    const auto rank = static_cast<std::int64_t>(patches.image.size());
    if (rank > 8) throw Error(ErrorCode::kUnsupported, "more than eight spatial axes");
    const std::int64_t channels = x.dims()[1];
    if (offset_groups < 1 || offset_groups > channels || channels % offset_groups != 0) {
      fail("offset_group " + std::to_string(offset_groups) + " does not divide " +
           std::to_string(channels) + " channels");
    }
    const std::int64_t per_offset = offset_groups * patches.kernel_size * patches.windows;
    if (k.input(2).count() != x.dims()[0] * per_offset * rank ||
        (k.has_input(4) && k.input(4).count() != x.dims()[0] * per_offset)) {
      fail("offset or mask do not fit the windows");
    }
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), plan.output);
    if (y.count() == 0) return;
    Tensor wide = compute == x.dtype() ? y : allocate_checked(compute, plan.output);
    const Tensor wx = converted(x, compute);
    const Tensor w = converted(k.input(1), compute);
    const Tensor offset = converted(k.input(2), compute);
    const Tensor bias = k.has_input(3) ? converted(k.input(3), compute) : Tensor();
    const Tensor mask = k.has_input(4) ? converted(k.input(4), compute) : Tensor();
    if (bias.defined() && bias.count() != plan.output[1]) fail("the bias has another size");
    const std::int64_t in_channels = channels / groups;
    const std::int64_t out_channels = plan.output[1] / groups;
    const std::int64_t depth = in_channels * patches.kernel_size;
    Tensor columns = allocate_checked(compute, {channels, patches.kernel_size, patches.windows});
    dispatch_float(compute, [&]<typename T>() {
      for (std::int64_t n = 0; n < x.dims()[0]; ++n) {
        k.parallel_for(channels, 1, [&](std::int64_t begin, std::int64_t end) {
          std::vector<double> at(static_cast<std::size_t>(rank));
          for (std::int64_t c = begin; c < end; ++c) {
            const std::int64_t og = c / (channels / offset_groups);
            const T* image = wx.data<T>() + (n * channels + c) * patches.image_size;
            for (std::int64_t q = 0; q < patches.kernel_size; ++q) {
              for (std::int64_t o = 0; o < patches.windows; ++o) {
                const std::int64_t tap = (n * offset_groups + og) * patches.kernel_size + q;
                std::int64_t q_rest = q;
                std::int64_t o_rest = o;
                for (std::size_t a = at.size(); a-- > 0;) {
                  const Window& v = patches.window;
                  const std::int64_t base = o_rest % v.output[a] * v.strides[a] +
                                            q_rest % v.kernel[a] * v.dilations[a] - v.pads_begin[a];
                  o_rest /= v.output[a];
                  q_rest /= v.kernel[a];
                  const std::int64_t row = tap * rank + static_cast<std::int64_t>(a);
                  at[a] = static_cast<double>(base) +
                          static_cast<double>(offset.data<T>()[row * patches.windows + o]);
                }
                T value = sample(image, patches.image, at);
                if (mask.defined()) value *= mask.data<T>()[tap * patches.windows + o];
                columns.data<T>()[(c * patches.kernel_size + q) * patches.windows + o] = value;
              }
            }
          }
        });
        for (std::int64_t g = 0; g < groups; ++g) {
          T* out = wide.data<T>() + (n * groups + g) * out_channels * patches.windows;
          multiply(k, out_channels, patches.windows, depth, w.data<T>() + g * out_channels * depth,
                   {depth, 1}, columns.data<T>() + g * depth * patches.windows,
                   {patches.windows, 1}, out);
          for (std::int64_t i = 0; bias.defined() && i < out_channels * patches.windows; ++i) {
            out[i] += bias.data<T>()[g * out_channels + i / patches.windows];
          }
        }
      }
    });
    store_wide(wide, y);
  });
}

// --- CausalConvWithState ------------------------------------------------------------------------

Created create_causal_conv(const KernelCreateContext& create) {
  const std::string activation = need_string(create.node(), "activation");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") fail("activation '" + activation + "' is not known");
  return make_kernel([silu](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& w = k.input(1);
    if (x.rank() != 3 || w.rank() != 3 || w.dims()[0] != x.dims()[1] || w.dims()[1] != 1 ||
        w.dims()[2] < 1) {
      fail("input " + shape_text(x.dims()) + " and weight " + shape_text(w.dims()) + " do not fit");
    }
    const std::int64_t channels = x.dims()[1];
    const std::int64_t length = x.dims()[2];
    const std::int64_t size = w.dims()[2];
    const std::int64_t past = size - 1;
    const std::int64_t rows = x.dims()[0] * channels;
    const Dims state_dims{x.dims()[0], channels, past};
    if (k.has_input(3) && k.input(3).dims() != state_dims) fail("the state has another shape");
    if (k.has_input(2) && k.input(2).count() != channels) fail("the bias has another size");
    Tensor& y = k.output(0, x.dtype(), x.dims());
    Tensor& present = k.output(1, x.dtype(), state_dims);
    if (y.count() + present.count() == 0) return;
    Scratch<double> taps(static_cast<std::size_t>(size));
    Scratch<double> line(static_cast<std::size_t>(past + length));
    Scratch<double> out(static_cast<std::size_t>(length));
    TimeCheck time;
    for (std::int64_t row = 0; row < rows; ++row) {
      time.spend(past + size * length);
      const std::int64_t c = row % channels;
      load_double(w.dtype(), w.raw(), c * size, size, taps.data());
      std::fill(line.begin(), line.begin() + past, 0.0);
      if (k.has_input(3)) {
        load_double(k.input(3).dtype(), k.input(3).raw(), row * past, past, line.data());
      }
      load_double(x.dtype(), x.raw(), row * length, length, line.data() + past);
      double bias = 0;
      if (k.has_input(2)) load_double(k.input(2).dtype(), k.input(2).raw(), c, 1, &bias);
      for (std::int64_t t = 0; t < length; ++t) {
        double sum = bias;
        for (std::int64_t i = 0; i < size; ++i) sum += taps[i] * line[t + i];
        out[t] = silu ? sum / (1 + std::exp(-sum)) : sum;
      }
      store_double(y.dtype(), out.data(), length, y.raw(), row * length);
      store_double(present.dtype(), line.data() + length, past, present.raw(), row * past);
    }
  });
}

// --- Col2Im -------------------------------------------------------------------------------------

Created create_col2im(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  return make_kernel([attributes](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Dims image = ints_input(k, 1);
    const Dims block = ints_input(k, 2);
    if (x.rank() != 3 || image.empty() || block.size() != image.size()) {
      fail("the shapes of image and block do not fit");
    }
    const Patches patches(resolve(attributes, image, block), image);
    if (x.dims()[1] % patches.kernel_size != 0 || x.dims()[2] != patches.windows) {
      fail("columns of shape " + shape_text(x.dims()) + " do not fit the image");
    }
    const std::int64_t channels = x.dims()[1] / patches.kernel_size;
    Dims dims{x.dims()[0], channels};
    dims.insert(dims.end(), image.begin(), image.end());
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), dims);
    Tensor wide = compute == x.dtype() ? y : allocate_checked(compute, dims);
    const Tensor columns = converted(x, compute);
    dispatch_number(compute, [&]<typename T>() {
      std::fill_n(wide.data<T>(), wide.count(), T{0});
      if (wide.count() == 0 || columns.count() == 0) return;
      for (std::int64_t i = 0; i < dims[0] * channels; ++i) {
        patches.scatter_add(columns.data<T>() + i * patches.kernel_size * patches.windows,
                            wide.data<T>() + i * patches.image_size);
      }
    });
    store_wide(wide, y);
  });
}

}  // namespace

void register_conv_kernels(KernelRegistry& registry) {
  const auto floats = [](const NodeView& n) { return n.check_input(0, kFloatTypes); };
  registry.add({.op = "Conv", .supports = floats, .create = create_conv});
  registry.add({.op = "ConvTranspose", .supports = floats, .create = create_conv_transpose});
  registry.add({.op = "DeformConv", .supports = floats, .create = create_deform_conv});
  registry.add({.op = "CausalConvWithState", .supports = floats, .create = create_causal_conv});
  registry.add({.op = "Col2Im",
                .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                .create = create_col2im});
}

}  // namespace xrt::native
