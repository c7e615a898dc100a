// SPDX-License-Identifier: Apache-2.0
// Pools of large windows, one spatial axis after the other: of k rows and k columns, 2 k elements
// are walked over instead of k · k.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/windows.h"
#include "engines/native/scratch.h"

namespace xrt::native {

// Whether windows are so large, and so many, that going by axes is faster.
inline bool pools_by_axes(const Window& w, const Dims& image) {
  constexpr double kGain = 2;  // by axes, what is between two passes is written and read again
  const auto windows = static_cast<double>(element_count(w.output));
  double by_axes = 0;
  double left = static_cast<double>(element_count(image));
  for (std::size_t a = image.size(); a-- > 0;) {
    if (image[a] == 0) return false;
    left = left / static_cast<double>(image[a]) * static_cast<double>(w.output[a]);
    by_axes += left * static_cast<double>(std::min(w.kernel[a], image[a]));
  }
  return windows * static_cast<double>(most_inside(w, image)) > kGain * by_axes;
}

// One pass: [outer, n, inner] to [outer, m, inner].
template <typename S, typename T, typename Combine>
void pool_axis(const KernelContext& k, const Window& w, const Dims& image, std::size_t a,
               std::int64_t outer, std::int64_t inner, const S* x, T* y, T none,
               const Combine& combine) {
  const std::int64_t n = image[a];
  const std::int64_t m = w.output[a];
  if (m == 0) return;
  const std::int64_t work = std::max<std::int64_t>(std::min(w.kernel[a], n) * inner, 1);
  const std::int64_t grain = std::max<std::int64_t>(4096 / work, 1);
  if (inner > 1) {  // rows are combined with rows
    k.parallel_for(outer * m, grain, [&](std::int64_t begin, std::int64_t end) {
      TimeCheck time;
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t at = row % m;
        const Span span = inside(w, image, a, at);
        T* const to = y + row * inner;
        std::fill_n(to, inner, none);
        for (std::int64_t j = span.lo; j < span.hi; ++j) {
          const std::int64_t place = at * w.strides[a] - w.pads_begin[a] + j * w.dilations[a];
          const S* const from = x + (row / m * n + place) * inner;
          for (std::int64_t i = 0; i < inner; ++i) to[i] = combine(to[i], from[i]);
          time.spend(inner);
        }
      }
    });
    return;
  }
  k.parallel_for(outer, std::max<std::int64_t>(grain / m, 1), [&](std::int64_t b, std::int64_t e) {
    TimeCheck time;
    for (std::int64_t row = b; row < e; ++row) {
      const S* const from = x + row * n;
      T* const to = y + row * m;
      std::fill_n(to, m, none);
      // Element j of all windows, then the next: windows side by side, the elements of each in
      // order.
      const std::int64_t first = inside(w, image, a, m - 1).lo;
      const std::int64_t past = inside(w, image, a, 0).hi;
      for (std::int64_t j = first; j < past; ++j) {
        const std::int64_t start = j * w.dilations[a] - w.pads_begin[a];
        const Span at{steps_below(start, w.strides[a], 0, m),
                      steps_below(start, w.strides[a], n, m)};
        const std::int64_t stride = w.strides[a];
        if (stride == 1) {
          for (std::int64_t i = at.lo; i < at.hi; ++i) to[i] = combine(to[i], from[start + i]);
        } else {
          for (std::int64_t i = at.lo; i < at.hi; ++i) {
            to[i] = combine(to[i], from[start + i * stride]);
          }
        }
        time.spend(at.size() + 1);
      }
    }
  });
}

// [planes, image …] of S to [planes, window.output …] of `dtype`, which is T. Of each window what
// `take(value, element)` makes of `none` and its elements in one line of the last axis, and then
// `combine(value, value)` of those.
template <typename S, typename T, typename Take, typename Combine>
Tensor pool_by_axes(const KernelContext& k, const Tensor& x, const Window& w, const Dims& image,
                    DType dtype, T none, const Take& take, const Combine& combine) {
  const std::int64_t planes = x.count() / element_count(image);
  Dims dims = image;
  Tensor from;
  for (std::size_t a = image.size(); a-- > 0;) {
    dims[a] = w.output[a];
    Tensor to = allocate_checked(dtype, {planes, element_count(dims)});
    const std::int64_t outer = planes * element_count(std::span(dims).first(a));
    const std::int64_t inner = element_count(std::span(dims).subspan(a + 1));
    if (a + 1 == image.size()) {
      pool_axis(k, w, image, a, outer, inner, x.data<S>(), to.data<T>(), none, take);
    } else {
      pool_axis(k, w, image, a, outer, inner, from.data<T>(), to.data<T>(), none, combine);
    }
    from = std::move(to);
  }
  return from;
}

// Means of `count` sums [planes, window.output …]: over the elements of each window that are in the
// image, or with its padding.
template <typename T>
void divide_by_counts(const KernelContext& k, const Window& w, const Dims& image, bool with_padding,
                      const double* sums, std::int64_t count, T* means) {
  if (count == 0) return;
  std::vector<Scratch<double>> counts(image.size());  // per axis, of each window
  for (std::size_t a = 0; a < image.size(); ++a) {
    for (std::int64_t at = 0; at < w.output[a]; ++at) {
      const std::int64_t size =
          with_padding ? inside_padding(w, image, a, at) : inside(w, image, a, at).size();
      counts[a].push_back(static_cast<double>(size));
    }
  }
  const Scratch<double>& columns = counts.back();
  const auto width = static_cast<std::int64_t>(columns.size());
  if (width == 0) return;
  k.parallel_for(count / width, 4096 / width + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      double rows = 1;
      std::int64_t rest = row;
      for (std::size_t a = image.size() - 1; a-- > 0;) {
        rows *= counts[a][static_cast<std::size_t>(rest % w.output[a])];
        rest /= w.output[a];
      }
      for (std::int64_t i = 0; i < width; ++i) {
        means[row * width + i] =
            static_cast<T>(sums[row * width + i] / (rows * columns[static_cast<std::size_t>(i)]));
      }
    }
  });
}

}  // namespace xrt::native
