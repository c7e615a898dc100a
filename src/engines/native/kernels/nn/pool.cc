// SPDX-License-Identifier: Apache-2.0
// Pooling of any rank and type: MaxPool, AveragePool, LpPool, their global forms, MaxUnpool.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/window.h"
#include "engines/native/kernels/common/windows.h"
#include "engines/native/kernels/nn/pool_axes.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

Dims pooled_dims(const Tensor& x, const Window& window) {
  Dims dims{x.dims()[0], x.dims()[1]};
  dims.insert(dims.end(), window.output.begin(), window.output.end());
  return dims;
}

// reduce(plane, window index, output index) gives each output element.
template <typename T, typename F>
void pool_planes(const KernelContext& k, const Tensor& x, const Window& window, const Dims& spatial,
                 Tensor& y, F&& reduce) {
  const std::int64_t windows = element_count(window.output);
  const std::int64_t planes = x.dims()[0] * x.dims()[1];
  const std::int64_t image = planes == 0 ? 0 : x.count() / planes;
  const std::int64_t elements = most_inside(window, spatial);
  k.parallel_for(planes * windows, 256, [&](std::int64_t begin, std::int64_t end) {
    TimeCheck time;
    for (std::int64_t i = begin; i < end; ++i) {
      y.data<T>()[i] = reduce(x.data<T>() + i / windows * image, i % windows, i);
      time.spend(elements);
    }
  });
}

// The offset of an element counted with the last spatial axis outermost.
std::int64_t column_major(std::int64_t offset, const Dims& image) {
  std::int64_t result = 0;
  std::int64_t step = element_count(image);
  for (std::size_t a = image.size(); a-- > 0;) {
    step /= image[a];
    result += offset % image[a] * step;
    offset /= image[a];
  }
  return result;
}

// Two spatial axes in row-major order, where windows have bounds of their own per row and column.
template <typename T>
void max_pool_2d(const KernelContext& k, const T* x, const Dims& image, const Window& w,
                 std::int64_t planes, T* y, std::int64_t* indices) {
  const std::int64_t height = image[0];
  const std::int64_t width = image[1];
  const std::int64_t rows = w.output[0];
  const std::int64_t columns = w.output[1];
  const std::int64_t grain = std::max<std::int64_t>(4096 / std::max<std::int64_t>(columns, 1), 1);
  using Limits = std::numeric_limits<T>;
  const T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const std::int64_t elements = most_inside(w, image);
  k.parallel_for(planes * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    TimeCheck time;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* plane = x + row / rows * height * width;
      const std::int64_t base = row / rows * height * width;
      const std::int64_t top = row % rows * w.strides[0] - w.pads_begin[0];
      const std::int64_t first = steps_below(top, w.dilations[0], 0, w.kernel[0]);
      const std::int64_t past = steps_below(top, w.dilations[0], height, w.kernel[0]);
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t left = column * w.strides[1] - w.pads_begin[1];
        const std::int64_t from = steps_below(left, w.dilations[1], 0, w.kernel[1]);
        const std::int64_t to = steps_below(left, w.dilations[1], width, w.kernel[1]);
        T best = least;
        std::int64_t where = -1;
        for (std::int64_t i = first; i < past; ++i) {
          const std::int64_t line = (top + i * w.dilations[0]) * width + left;
          for (std::int64_t j = from; j < to; ++j) {
            const std::int64_t at = line + j * w.dilations[1];
            const T value = plane[at];
            if (where < 0 || value > best || value != value) {
              best = value;
              where = at;
            }
          }
        }
        time.spend(elements);
        y[row * columns + column] = best;
        if (indices != nullptr) indices[row * columns + column] = base + where;
      }
    }
  });
}

Created create_max_pool(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  const bool column_order = need_int(create.node(), "storage_order") != 0;
  return make_kernel([attributes, column_order](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 3) fail("the input has no spatial axes");
    const Dims image = spatial_dims(x.dims());
    const Window window = resolve(attributes, image, Dims(attributes.kernel));
    const Dims dims = pooled_dims(x, window);
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), dims);
    Tensor* indices = k.wants_output(1) ? &k.output(1, DType::kInt64, dims) : nullptr;
    const Tensor wide = converted(x, compute);
    Tensor result = compute == x.dtype() ? y : allocate_checked(compute, dims);
    const std::int64_t windows = element_count(window.output);
    const std::int64_t size = element_count(image);
    dispatch_number(compute, [&]<typename T>() {
      using Limits = std::numeric_limits<T>;
      constexpr T kLeast = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      if (indices == nullptr && pools_by_axes(window, image)) {
        const auto larger = [](T best, T v) { return v > best || v != v ? v : best; };
        const Tensor best =
            pool_by_axes<T>(k, wide, window, image, compute, kLeast, larger, larger);
        std::copy_n(best.data<T>(), y.count(), result.data<T>());
        return;
      }
      if (image.size() == 2 && !column_order) {
        return max_pool_2d<T>(k, wide.data<T>(), image, window, x.dims()[0] * x.dims()[1],
                              result.data<T>(),
                              indices == nullptr ? nullptr : indices->data<std::int64_t>());
      }
      pool_planes<T>(k, wide, window, image, result,
                     [&](const T* plane, std::int64_t w, std::int64_t i) {
                       T best = kLeast;
                       std::int64_t where = -1;
                       for_window(window, image, w, [&](std::int64_t offset) {
                         if (where < 0 || plane[offset] > best || plane[offset] != plane[offset]) {
                           best = plane[offset];
                           where = offset;
                         }
                       });
                       if (indices != nullptr) {
                         const std::int64_t at =
                             column_order && where >= 0 ? column_major(where, image) : where;
                         indices->data<std::int64_t>()[i] = i / windows * size + at;
                       }
                       return best;
                     });
    });
    if (compute != x.dtype()) store_float(x.dtype(), result.data<float>(), y.count(), y.raw(), 0);
  });
}

Created make_float_pool(const KernelCreateContext& create, bool average, bool global) {
  auto attributes = WindowAttributes::of(create.node());
  const bool include_pad = average && !global && need_int(create.node(), "count_include_pad") != 0;
  const std::int64_t p = average ? 0 : need_int(create.node(), "p");
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 3) fail("the input has no spatial axes");
    const Dims image = spatial_dims(x.dims());
    const Window window = resolve(attributes, image, global ? image : Dims(attributes.kernel));
    const Dims dims = pooled_dims(x, window);
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), dims);
    const Tensor wide = converted(x, compute);
    Tensor result = compute == x.dtype() ? y : allocate_checked(compute, dims);
    const auto add = [=](double sum, auto element) {
      const auto v = static_cast<double>(element);
      if (average) return sum + v;
      if (p == 1) return sum + std::fabs(v);
      if (p == 2) return sum + v * v;
      return sum + std::pow(std::fabs(v), static_cast<double>(p));
    };
    const auto root = [=](double sum) { return std::pow(sum, 1.0 / static_cast<double>(p)); };
    dispatch_float(compute, [&]<typename T>() {
      if (!pools_by_axes(window, image)) {
        return pool_planes<T>(
            k, wide, window, image, result, [&](const T* plane, std::int64_t w, std::int64_t) {
              double sum = 0;
              const WindowPlace place = for_window(
                  window, image, w, [&](std::int64_t offset) { sum = add(sum, plane[offset]); });
              if (!average) return static_cast<T>(root(sum));
              return static_cast<T>(sum /
                                    static_cast<double>(include_pad ? place.padded : place.count));
            });
      }
      const Tensor sums =
          pool_by_axes<T>(k, wide, window, image, DType::kFloat64, 0.0, add, std::plus<double>());
      const double* const from = sums.data<double>();
      T* const to = result.data<T>();
      if (average) return divide_by_counts(k, window, image, include_pad, from, y.count(), to);
      k.parallel_for(y.count(), 256, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(root(from[i]));
      });
    });
    if (compute != x.dtype()) store_float(x.dtype(), result.data<float>(), y.count(), y.raw(), 0);
  });
}

Created create_global_max(const KernelCreateContext&) {
  return make_kernel([](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() < 2) fail("the input has no channels");
    Dims dims = x.dims();
    std::fill(dims.begin() + 2, dims.end(), 1);
    const std::int64_t size = product(x.dims(), 2, x.rank());
    Tensor& y = k.output(0, x.dtype(), dims);
    if (size == 0) fail("the input has no elements");
    if (y.count() == 0) return;
    Scratch<double> plane(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < y.count(); ++i) {
      load_double(x.dtype(), x.raw(), i * size, size, plane.data());
      const double best = *std::max_element(plane.begin(), plane.end());
      store_double(y.dtype(), &best, 1, y.raw(), i);
    }
  });
}

// To place one element.
constexpr std::int64_t kUnpoolWork = 8;

Created create_max_unpool(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  return make_kernel([attributes](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& indices = k.input(1);
    if (x.rank() < 3 || indices.dims() != x.dims()) fail("the indices have another shape");
    const std::size_t rank = x.rank() - 2;
    Dims inferred = x.dims();
    for (std::size_t a = 0; a < rank; ++a) {
      const auto entry = [&](const std::vector<std::int64_t>& list, std::size_t i,
                             std::int64_t fallback) {
        return i < list.size() ? list[i] : fallback;
      };
      inferred[a + 2] = (x.dims()[a + 2] - 1) * entry(attributes.strides, a, 1) +
                        entry(attributes.kernel, a, 1) - entry(attributes.pads, a, 0) -
                        entry(attributes.pads, rank + a, 0);
    }
    const Dims dims = k.has_input(2) ? Dims(ints_input(k, 2)) : inferred;
    if (dims.size() != x.rank()) fail("the output shape has another rank");
    Tensor& y = k.output(0, x.dtype(), dims);
    // The indices count elements of the tensor that was pooled: of `inferred`.
    const std::int64_t source_count = element_count(inferred);
    dispatch_size(static_cast<std::size_t>(bit_width(x.dtype())) / 8, [&]<typename T>() {
      std::fill_n(y.data<T>(), y.count(), T{});
      TimeCheck time;
      for (std::int64_t i = 0; i < x.count(); ++i) {
        time.spend(kUnpoolWork);
        std::int64_t rest = indices.data<std::int64_t>()[i];
        if (rest < 0 || rest >= source_count) fail("an index is outside the pooled tensor");
        std::int64_t offset = 0;
        std::int64_t step = 1;
        for (std::size_t a = dims.size(); a-- > 0;) {
          const std::int64_t p = rest % inferred[a];
          if (p >= dims[a]) fail("an index is outside the output");
          offset += p * step;
          step *= dims[a];
          rest /= inferred[a];
        }
        y.data<T>()[offset] = x.data<T>()[i];
      }
    });
  });
}

}  // namespace

void register_pool_kernels(KernelRegistry& registry) {
  const auto floats = [](const NodeView& n) { return n.check_input(0, kFloatTypes); };
  registry.add({.op = "MaxPool",
                .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                .create = create_max_pool});
  const auto add_pool = [&](const char* op, bool average, bool global) {
    registry.add({.op = op,
                  .supports = floats,
                  .create = [average, global](const KernelCreateContext& create) {
                    return make_float_pool(create, average, global);
                  }});
  };
  add_pool("AveragePool", true, false);
  add_pool("LpPool", false, false);
  add_pool("GlobalAveragePool", true, true);
  add_pool("GlobalLpPool", false, true);
  registry.add({.op = "GlobalMaxPool", .supports = floats, .create = create_global_max});
  registry.add({.op = "MaxUnpool", .supports = floats, .create = create_max_unpool});
}

}  // namespace xrt::native
