// SPDX-License-Identifier: Apache-2.0
// Gradients that have no good form among the standard ops (domain "xrt",
// docs/reference/gradients.md), for any rank, in float32 and float64. The folder dnn/ has faster
// ones for float32.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/window.h"
#include "engines/native/kernels/common/windows.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

constexpr const char* kDomain = "xrt";

Support float_or_double(const NodeView& node) {
  const DType dtype = node.input_dtype(0);
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64) return Support::yes();
  return Support::no("float32 or float64 is wanted");
}

// For each element of a window in ONNX's order: its offset in the image, or -1 in the padding.
Scratch<std::int64_t> places(const Window& w, const Dims& image, std::int64_t window) {
  Scratch<std::int64_t> result;
  const std::int64_t count = element_count(w.kernel);
  for (std::int64_t k = 0; k < count; ++k) {
    std::int64_t rest_window = window;
    std::int64_t rest_kernel = k;
    std::int64_t offset = 0;
    std::int64_t step = 1;
    bool inside = true;
    for (std::size_t a = image.size(); a-- > 0;) {
      const std::int64_t at = rest_window % w.output[a] * w.strides[a] - w.pads_begin[a] +
                              rest_kernel % w.kernel[a] * w.dilations[a];
      rest_window /= w.output[a];
      rest_kernel /= w.kernel[a];
      inside = inside && at >= 0 && at < image[a];
      offset += at * step;
      step *= image[a];
    }
    result.push_back(inside ? offset : -1);
  }
  return result;
}

// X [N,C,…], dY [N,M,…] → dW [M,C/group,kernel…] and, if wanted, dB [M].
Created create_conv_weight_gradient(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  const std::int64_t groups = need_int(create.node(), "group");
  return make_kernel([attributes, groups](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& dy = k.input(1);
    if (x.rank() < 3 || dy.rank() != x.rank() || dy.dtype() != x.dtype()) {
      fail("X and dY must be of one type and of one rank of 3 or more");
    }
    const Dims image = spatial_dims(x.dims());
    const Window w = resolve(attributes, image, attributes.kernel);
    const std::int64_t batch = x.dims()[0];
    const std::int64_t channels = x.dims()[1];
    const std::int64_t maps = dy.dims()[1];
    if (dy.dims()[0] != batch || spatial_dims(dy.dims()) != w.output || groups < 1 ||
        channels % groups != 0 || maps % groups != 0) {
      fail("dY " + shape_text(dy.dims()) + " is not the shape of the convolution's result");
    }
    const std::int64_t each = channels / groups;
    Dims dims{maps, each};
    dims.insert(dims.end(), w.kernel.begin(), w.kernel.end());
    Tensor& dw = k.output(0, x.dtype(), dims);
    Tensor* db = k.wants_output(1) ? &k.output(1, x.dtype(), {maps}) : nullptr;
    const std::int64_t windows = element_count(w.output);
    const std::int64_t kernel = element_count(w.kernel);
    const std::int64_t plane = element_count(image);
    const bool is_empty = x.count() == 0 || dy.count() == 0;
    Scratch<std::int64_t> offsets;
    TimeCheck time;
    for (std::int64_t o = 0; !is_empty && o < windows; ++o) {
      time.spend(kernel);
      const auto row = places(w, image, o);
      offsets.insert(offsets.end(), row.begin(), row.end());
    }
    dispatch_float(x.dtype(), [&]<typename T>() {
      const T* in = x.data<T>();
      const T* out = dy.data<T>();
      k.parallel_for(maps * each, 1, [&](std::int64_t begin, std::int64_t end) {
        Scratch<double> sums(static_cast<std::size_t>(kernel));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t m = i / each;
          const std::int64_t c = m / (maps / groups) * each + i % each;
          std::fill(sums.begin(), sums.end(), 0.0);
          for (std::int64_t n = 0; !is_empty && n < batch; ++n) {
            const T* from = in + (n * channels + c) * plane;
            const T* by = out + (n * maps + m) * windows;
            for (std::int64_t o = 0; o < windows; ++o) {
              const std::int64_t* at = offsets.data() + o * kernel;
              for (std::int64_t e = 0; e < kernel; ++e) {
                if (at[e] >= 0) sums[e] += static_cast<double>(by[o]) * from[at[e]];
              }
            }
          }
          for (std::int64_t e = 0; e < kernel; ++e) {
            dw.data<T>()[i * kernel + e] = static_cast<T>(sums[e]);
          }
        }
      });
      if (db == nullptr) return;
      for (std::int64_t m = 0; m < maps; ++m) {
        double sum = 0;
        for (std::int64_t n = 0; !is_empty && n < batch; ++n) {
          const T* row = out + (n * maps + m) * windows;
          for (std::int64_t o = 0; o < windows; ++o) sum += row[o];
        }
        db->data<T>()[m] = static_cast<T>(sum);
      }
    });
  });
}

// X, dY → dX: each element of dY goes to the first maximum of its window.
Created create_max_pool_gradient(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  return make_kernel([attributes](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& dy = k.input(1);
    if (x.rank() < 3 || dy.dtype() != x.dtype()) fail("X has no spatial axes, or dY another type");
    const Dims image = spatial_dims(x.dims());
    const Window w = resolve(attributes, image, attributes.kernel);
    if (dy.rank() != x.rank() || spatial_dims(dy.dims()) != w.output) {
      fail("dY " + shape_text(dy.dims()) + " is not the shape of the pool's result");
    }
    Tensor& dx = k.output(0, x.dtype(), x.dims());
    const std::int64_t windows = element_count(w.output);
    const std::int64_t plane = element_count(image);
    if (dx.count() == 0) return;
    dispatch_float(x.dtype(), [&]<typename T>() {
      k.parallel_for(x.dims()[0] * x.dims()[1], 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const T* from = x.data<T>() + p * plane;
          T* to = dx.data<T>() + p * plane;
          std::fill(to, to + plane, T{0});
          for (std::int64_t o = 0; o < windows; ++o) {
            std::int64_t where = -1;
            for_window(w, image, o, [&](std::int64_t at) {
              if (where < 0 || from[at] > from[where] || from[at] != from[at]) where = at;
            });
            if (where >= 0) to[where] += dy.data<T>()[p * windows + o];
          }
        }
      });
    });
  });
}

// X, scale, mean, variance (of the batch), dY → dX, dScale, dBias.
Created create_batch_norm_gradient(const KernelCreateContext& create) {
  const double epsilon = need_float(create.node(), "epsilon");
  return make_kernel([epsilon](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& dy = k.input(4);
    if (x.rank() < 2 || dy.dims() != x.dims() || dy.dtype() != x.dtype()) {
      fail("X and dY must be of one shape and type, with channels");
    }
    const std::int64_t batch = x.count() == 0 ? 0 : x.dims()[0];
    const std::int64_t channels = x.dims()[1];
    const std::int64_t plane = x.count() == 0 ? 0 : x.count() / (batch * channels);
    for (std::size_t i = 1; i < 4; ++i) {
      if (k.input(i).count() != channels || k.input(i).dtype() != x.dtype()) {
        fail("scale, mean and variance must hold one number per channel, of the type of X");
      }
    }
    Tensor& dx = k.output(0, x.dtype(), x.dims());
    Tensor& ds = k.output(1, x.dtype(), {channels});
    Tensor& db = k.output(2, x.dtype(), {channels});
    dispatch_float(x.dtype(), [&]<typename T>() {
      k.parallel_for(channels, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          const double mean = k.input(2).data<T>()[c];
          const double inverse = 1 / std::sqrt(k.input(3).data<T>()[c] + epsilon);
          double sum = 0;
          double product = 0;
          for (std::int64_t n = 0; n < batch; ++n) {
            const T* in = x.data<T>() + (n * channels + c) * plane;
            const T* g = dy.data<T>() + (n * channels + c) * plane;
            for (std::int64_t i = 0; i < plane; ++i) {
              sum += g[i];
              product += g[i] * (in[i] - mean) * inverse;
            }
          }
          ds.data<T>()[c] = static_cast<T>(product);
          db.data<T>()[c] = static_cast<T>(sum);
          const double count = static_cast<double>(batch * plane);
          const double factor = k.input(1).data<T>()[c] * inverse;
          for (std::int64_t n = 0; n < batch; ++n) {
            const T* in = x.data<T>() + (n * channels + c) * plane;
            const T* g = dy.data<T>() + (n * channels + c) * plane;
            T* out = dx.data<T>() + (n * channels + c) * plane;
            for (std::int64_t i = 0; i < plane; ++i) {
              const double hat = (in[i] - mean) * inverse;
              out[i] = static_cast<T>(factor * (g[i] - sum / count - hat * product / count));
            }
          }
        }
      });
    });
  });
}

// X, token → X: its place in the order of nodes is all that it is for.
Created create_after(const KernelCreateContext&) {
  return make_kernel([](KernelContext& k) { k.output_view(0, 0, k.input(0).dims()); },
                     {.view_of = 0});
}

}  // namespace

void register_gradient_kernels(KernelRegistry& registry) {
  registry.add({.domain = kDomain, .op = "After", .create = create_after});
  registry.add({.domain = kDomain,
                .op = "ConvWeightGradient",
                .supports = float_or_double,
                .create = create_conv_weight_gradient});
  registry.add({.domain = kDomain,
                .op = "MaxPoolGradient",
                .supports = float_or_double,
                .create = create_max_pool_gradient});
  registry.add({.domain = kDomain,
                .op = "BatchNormalizationGradient",
                .supports = float_or_double,
                .create = create_batch_norm_gradient});
}

}  // namespace xrt::native
