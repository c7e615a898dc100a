// SPDX-License-Identifier: Apache-2.0
// Softmax and the normalisations; statistics are in float (double for double).
#include <algorithm>
#include <cmath>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/fold.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

// The input in its compute type and a place for the result, which finish() stores.
struct Wide {
  Wide(KernelContext& k, const Tensor& x)
      : target(k.output(0, x.dtype(), x.dims())),
        compute(compute_dtype(x.dtype())),
        input(converted(x, compute)),
        result(compute == x.dtype() ? target : allocate_checked(compute, x.dims())) {}
  void finish() {
    if (result.raw() == target.raw()) return;
    store_float(target.dtype(), result.data<float>(), result.count(), target.raw(), 0);
  }
  Tensor& target;
  DType compute;
  Tensor input;
  Tensor result;
};

enum class SoftmaxKind : std::uint8_t { kSoftmax, kLogSoftmax, kHardmax };

template <typename T>
void softmax_strided(SoftmaxKind kind, const T* x, T* y, std::int64_t n, std::int64_t step) {
  T highest = x[0];
  std::int64_t where = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    if (x[i * step] > highest) {
      highest = x[i * step];
      where = i;
    }
  }
  if (kind == SoftmaxKind::kHardmax) {
    for (std::int64_t i = 0; i < n; ++i) y[i * step] = i == where ? T{1} : T{0};
    return;
  }
  T sum{};
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i * step] - highest);
  const T log_sum = std::log(sum);
  for (std::int64_t i = 0; i < n; ++i) {
    const T shifted = x[i * step] - highest;
    y[i * step] = kind == SoftmaxKind::kLogSoftmax ? shifted - log_sum : std::exp(shifted) / sum;
  }
}

Created make_softmax(const KernelCreateContext& create, SoftmaxKind kind) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  return make_kernel(
      [given_axis, kind](KernelContext& k) {
        const Tensor& x = k.input(0);
        const std::size_t axis = normalize_axis(given_axis, x.rank());
        Wide wide(k, x);
        const std::int64_t n = x.dims()[axis];
        const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
        const std::int64_t rows = n == 0 ? 0 : x.count() / n;
        const std::int64_t grain = std::max<std::int64_t>(4096 / std::max<std::int64_t>(n, 1), 1);
        if (wide.compute == DType::kFloat32 && kind != SoftmaxKind::kHardmax) {
          if (x.count() > 0) {
            exponentials_block(
                k,
                kind == SoftmaxKind::kSoftmax ? Exponentials::kSoftmax : Exponentials::kLogSoftmax,
                wide.input.data<float>(), rows / inner, n, inner, wide.result.data<float>());
          }
          return wide.finish();
        }
        dispatch_float(wide.compute, [&]<typename T>() {
          const T* in = wide.input.data<T>();
          T* out = wide.result.data<T>();
          k.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
              const std::int64_t at = row / inner * n * inner + row % inner;
              softmax_strided(kind, in + at, out + at, n, inner);
            }
          });
        });
        wide.finish();
      },
      {.in_place = {0}});
}

void check_parameter(const Tensor& t, std::int64_t count, const char* name) {
  if (t.count() != count) {
    fail(std::string(name) + " has " + std::to_string(t.count()) + " elements, not " +
         std::to_string(count));
  }
}

Created create_batch_norm(const KernelCreateContext& create) {
  const float epsilon = need_float(create.node(), "epsilon");
  const float momentum = need_float(create.node(), "momentum");
  const bool training = need_int(create.node(), "training_mode") != 0;
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 1) fail("the input has no axes");
    const std::int64_t channels = x.rank() > 1 ? x.dims()[1] : 1;
    const std::int64_t batch = x.dims()[0];
    const std::int64_t plane = x.rank() > 1 ? product(x.dims(), 2, x.rank()) : 1;
    for (std::size_t i = 1; i < 5; ++i) check_parameter(k.input(i), channels, "a parameter");
    Wide wide(k, x);
    Tensor parameters[4];
    for (std::size_t i = 0; i < 4; ++i) parameters[i] = converted(k.input(i + 1), wide.compute);
    dispatch_float(wide.compute, [&]<typename T>() {
      const T* in = wide.input.data<T>();
      T* out = wide.result.data<T>();
      Scratch<T> mean(parameters[2].data<T>(), parameters[2].data<T>() + channels);
      Scratch<T> variance(parameters[3].data<T>(), parameters[3].data<T>() + channels);
      if (training) {
        const double count = static_cast<double>(batch * plane);
        TimeCheck time;
        for (std::int64_t c = 0; c < channels; ++c) {
          double sum = 0, squares = 0;
          for (std::int64_t b = 0; plane > 0 && b < batch; ++b) {
            time.spend(plane);
            const T* p = in + (b * channels + c) * plane;
            for (std::int64_t i = 0; i < plane; ++i) sum += p[i];
          }
          const double average = sum / count;
          for (std::int64_t b = 0; plane > 0 && b < batch; ++b) {
            time.spend(plane);
            const T* p = in + (b * channels + c) * plane;
            for (std::int64_t i = 0; i < plane; ++i) squares += (p[i] - average) * (p[i] - average);
          }
          mean[c] = static_cast<T>(average);
          variance[c] = static_cast<T>(squares / count);
        }
        for (std::size_t o = 1; o < 3; ++o) {
          if (!k.wants_output(o)) continue;
          const Tensor& old = parameters[o + 1];
          const Scratch<T>& now = o == 1 ? mean : variance;
          Tensor& running = k.output(o, k.input(o + 2).dtype(), {channels});
          for (std::int64_t c = 0; c < channels; ++c) {
            const double value = old.data<T>()[c] * static_cast<double>(momentum) +
                                 now[c] * (1.0 - static_cast<double>(momentum));
            store_double(running.dtype(), &value, 1, running.raw(), c);
          }
        }
      }
      k.parallel_for(x.count() == 0 ? 0 : batch * channels,
                     std::max<std::int64_t>(16384 / std::max<std::int64_t>(plane, 1), 1),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row) {
                         const std::int64_t c = row % channels;
                         const T scale = parameters[0].data<T>()[c] /
                                         std::sqrt(variance[c] + static_cast<T>(epsilon));
                         const T shift = parameters[1].data<T>()[c] - mean[c] * scale;
                         for (std::int64_t i = row * plane; i < (row + 1) * plane; ++i) {
                           out[i] = in[i] * scale + shift;
                         }
                       }
                     });
    });
    wide.finish();
  });
}

// y = (x - mean) / sqrt(variance + epsilon) over rows of n elements.
template <typename T>
void row_statistics(const T* x, std::int64_t n, T epsilon, T* mean, T* inverse) {
  if constexpr (std::is_same_v<T, float>) {
    const VectorOps& ops = vector_ops();
    *mean = ops.sum(x, n) / static_cast<float>(n);
    const float variance = ops.sum_squared_difference(x, n, *mean) / static_cast<float>(n);
    *inverse = 1.0F / std::sqrt(variance + epsilon);
  } else {
    T sum{};
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    *mean = sum / static_cast<T>(n);
    T squares{};
    for (std::int64_t i = 0; i < n; ++i) squares += (x[i] - *mean) * (x[i] - *mean);
    *inverse = T{1} / std::sqrt(squares / static_cast<T>(n) + epsilon);
  }
}

Created create_layer_norm(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const float epsilon = need_float(create.node(), "epsilon");
  const auto stash = static_cast<DType>(need_int(create.node(), "stash_type"));
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    const std::int64_t n = product(x.dims(), axis, x.rank());
    const std::int64_t rows = product(x.dims(), 0, axis);
    Dims reduced = x.dims();
    std::fill(reduced.begin() + static_cast<std::ptrdiff_t>(axis), reduced.end(), 1);
    Wide wide(k, x);
    // Scale and bias usually have the normalised shape; any that broadcasts to it is allowed.
    // passes/split_row_scales.cc takes out what broadcasts to more.
    const Dims inner(x.dims().begin() + static_cast<std::ptrdiff_t>(axis), x.dims().end());
    const auto parameter = [&](std::size_t i) {
      const Tensor* given = k.optional_input(i);
      if (given == nullptr) return Tensor();
      Tensor t = converted(*given, wide.compute);
      Dims dims = t.dims();
      while (dims.size() > inner.size() && dims.front() == 1) dims.erase(dims.begin());
      if (broadcast_dims(dims, inner) != inner) fail("a parameter does not broadcast to a row");
      if (t.count() == n) return t;
      Tensor full = allocate_checked(wide.compute, inner);
      copy_view(k, t.raw(), {inner, broadcast_strides(dims, inner), 0}, wide.compute, full.raw());
      return full;
    };
    const Tensor scale = parameter(1);
    const Tensor bias = parameter(2);
    Tensor* means = k.wants_output(1) ? &k.output(1, stash, reduced) : nullptr;
    Tensor* inverses = k.wants_output(2) ? &k.output(2, stash, reduced) : nullptr;
    if (x.count() == 0 && means == nullptr && inverses == nullptr) return;
    dispatch_float(wide.compute, [&]<typename T>() {
      const T* in = wide.input.data<T>();
      T* out = wide.result.data<T>();
      const T* gamma = scale.defined() ? scale.data<T>() : nullptr;
      const T* beta = bias.defined() ? bias.data<T>() : nullptr;
      k.parallel_for(rows, std::max<std::int64_t>(8192 / std::max<std::int64_t>(n, 1), 1),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row) {
                         T mean, inverse;
                         const T* p = in + row * n;
                         T* q = out + row * n;
                         row_statistics(p, n, static_cast<T>(epsilon), &mean, &inverse);
                         if constexpr (std::is_same_v<T, float>) {
                           vector_ops().normalize(p, q, n, mean, inverse, gamma, beta);
                         } else {
                           for (std::int64_t i = 0; i < n; ++i) {
                             q[i] = (p[i] - mean) * inverse * (gamma ? gamma[i] : T{1}) +
                                    (beta ? beta[i] : T{0});
                           }
                         }
                         const auto put = [&](Tensor* statistics, double value) {
                           if (statistics == nullptr) return;
                           store_double(stash, &value, 1, statistics->raw(), row);
                         };
                         put(means, mean);
                         put(inverses, inverse);
                       }
                     });
    });
    wide.finish();
  });
}

// InstanceNormalization is GroupNormalization with one channel per group.
Created make_group_norm(const KernelCreateContext& create, bool instance) {
  const float epsilon = need_float(create.node(), "epsilon");
  const std::int64_t given_groups = instance ? 0 : need_int(create.node(), "num_groups");
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 2) fail("the input is not of rank 2 or more");
    const std::int64_t channels = x.dims()[1];
    const std::int64_t groups = instance ? channels : given_groups;
    if (groups < 1 || channels % groups != 0) {
      if (channels != 0) fail("the channels do not divide by the groups");
    }
    const std::int64_t plane = product(x.dims(), 2, x.rank());
    check_parameter(k.input(1), channels, "the scale");
    check_parameter(k.input(2), channels, "the bias");
    Wide wide(k, x);
    const Tensor scale = converted(k.input(1), wide.compute);
    const Tensor bias = converted(k.input(2), wide.compute);
    if (x.count() == 0) return;
    const std::int64_t per_group = channels / groups;
    const std::int64_t n = per_group * plane;
    dispatch_float(wide.compute, [&]<typename T>() {
      const T* in = wide.input.data<T>();
      T* out = wide.result.data<T>();
      k.parallel_for(x.dims()[0] * groups, std::max<std::int64_t>(8192 / n, 1),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row) {
                         T mean, inverse;
                         row_statistics(in + row * n, n, static_cast<T>(epsilon), &mean, &inverse);
                         for (std::int64_t c = 0; c < per_group; ++c) {
                           const std::int64_t channel = row % groups * per_group + c;
                           const T factor = inverse * scale.data<T>()[channel];
                           const T shift = bias.data<T>()[channel] - mean * factor;
                           const std::int64_t at = row * n + c * plane;
                           for (std::int64_t i = at; i < at + plane; ++i)
                             out[i] = in[i] * factor + shift;
                         }
                       }
                     });
    });
    wide.finish();
  });
}

Created create_lrn(const KernelCreateContext& create) {
  const double alpha = need_float(create.node(), "alpha");
  const double beta = need_float(create.node(), "beta");
  const double bias = need_float(create.node(), "bias");
  const std::int64_t size = need_int(create.node(), "size");
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 2 || size < 1) fail("the input has no channels, or 'size' is not positive");
    Wide wide(k, x);
    if (x.count() == 0) return;
    const std::int64_t channels = x.dims()[1];
    const std::int64_t plane = product(x.dims(), 2, x.rank());
    dispatch_float(wide.compute, [&]<typename T>() {
      const T* in = wide.input.data<T>();
      T* out = wide.result.data<T>();
      k.parallel_for(x.dims()[0] * channels, 1, [&](std::int64_t begin, std::int64_t end) {
        Scratch<T> squares(static_cast<std::size_t>(plane));
        TimeCheck time;
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t c = row % channels;
          const std::int64_t first = std::max<std::int64_t>(c - (size - 1) / 2, 0);
          const std::int64_t last = std::min(c + size / 2, channels - 1);
          std::fill(squares.begin(), squares.end(), T{0});
          for (std::int64_t other = first; other <= last; ++other) {
            const T* p = in + (row - c + other) * plane;
            for (std::int64_t i = 0; i < plane; ++i) squares[i] += p[i] * p[i];
            time.spend(plane);
          }
          for (std::int64_t i = 0; i < plane; ++i) {
            const T base = static_cast<T>(bias + alpha / static_cast<double>(size) * squares[i]);
            out[row * plane + i] = in[row * plane + i] / std::pow(base, static_cast<T>(beta));
          }
        }
      });
    });
    wide.finish();
  });
}

Created create_lp_norm(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const std::int64_t p = need_int(create.node(), "p");
  return make_kernel([given_axis, p](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    Wide wide(k, x);
    const std::int64_t n = x.dims()[axis];
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    dispatch_float(wide.compute, [&]<typename T>() {
      TimeCheck time;
      for (std::int64_t row = 0; n > 0 && row < x.count() / n; ++row) {
        time.spend(n);
        const std::int64_t at = row / inner * n * inner + row % inner;
        const T* in = wide.input.data<T>() + at;
        T* out = wide.result.data<T>() + at;
        T sum{};
        for (std::int64_t i = 0; i < n; ++i) {
          sum += p == 1 ? std::fabs(in[i * inner]) : in[i * inner] * in[i * inner];
        }
        const T norm = p == 1 ? sum : std::sqrt(sum);
        for (std::int64_t i = 0; i < n; ++i) {
          out[i * inner] = norm == T{0} ? T{0} : in[i * inner] / norm;
        }
      }
    });
    wide.finish();
  });
}

}  // namespace

void register_normalization_kernels(KernelRegistry& registry) {
  const auto floats = [](const NodeView& n) { return n.check_input(0, kFloatTypes); };
  const auto add = [&](const char* op, auto create) {
    registry.add({.op = op, .supports = floats, .create = create});
  };
  add("Softmax",
      [](const KernelCreateContext& c) { return make_softmax(c, SoftmaxKind::kSoftmax); });
  add("LogSoftmax",
      [](const KernelCreateContext& c) { return make_softmax(c, SoftmaxKind::kLogSoftmax); });
  add("Hardmax",
      [](const KernelCreateContext& c) { return make_softmax(c, SoftmaxKind::kHardmax); });
  add("BatchNormalization", create_batch_norm);
  add("LayerNormalization", create_layer_norm);
  add("InstanceNormalization",
      [](const KernelCreateContext& c) { return make_group_norm(c, true); });
  add("GroupNormalization", [](const KernelCreateContext& c) { return make_group_norm(c, false); });
  add("LRN", create_lrn);
  add("LpNormalization", create_lp_norm);
}

}  // namespace xrt::native
