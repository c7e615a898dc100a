// SPDX-License-Identifier: Apache-2.0
// Windows of an image as columns of a matrix, and back: what convolutions of any rank are made of.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/window.h"

namespace xrt::native {

// Windows over one channel of an image with the spatial dimensions `image`.
struct Patches {
  Window window;
  Dims image;
  std::int64_t kernel_size = 1;  // elements per window
  std::int64_t windows = 1;
  std::int64_t image_size = 1;

  Patches(Window w, Dims spatial) : window(std::move(w)), image(std::move(spatial)) {
    kernel_size = element_count(window.kernel);
    windows = element_count(window.output);
    image_size = element_count(image);
  }

  // Some of the windows, in the order of the result.
  struct Range {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };

  // For the q-th element of the windows of a range: fn(first window, image offset of the row, n,
  // first column, step) for each row of windows; an offset of -1 where its other coordinates are
  // outside of the image. Windows count from the begin of the range. The i-th one of the row reads
  // column `first + i * step`, which may be outside.
  template <typename F>
  void for_rows(std::int64_t q, Range range, F&& fn) const {
    if (range.begin >= range.end) return;  // an axis of the result may have no elements
    const std::size_t rank = image.size();
    const std::size_t last = rank - 1;
    Dims at(rank), start(rank);
    for (std::size_t a = rank; a-- > 0;) {
      start[a] = q % window.kernel[a] * window.dilations[a] - window.pads_begin[a];
      q /= window.kernel[a];
    }
    const std::int64_t row = window.output[last];
    std::int64_t line = range.begin / row;
    const std::int64_t first_line = line;
    for (std::size_t a = last; a-- > 0;) {
      at[a] = line % window.output[a];
      line /= window.output[a];
    }
    for (std::int64_t first = first_line * row; first < range.end; first += row) {
      std::int64_t offset = 0;
      bool inside = true;
      for (std::size_t a = 0; a < last; ++a) {
        const std::int64_t p = at[a] * window.strides[a] + start[a];
        inside = inside && p >= 0 && p < image[a];
        offset = offset * image[a] + p;
      }
      const std::int64_t skipped = std::max<std::int64_t>(range.begin - first, 0);
      const std::int64_t n = std::min(row, range.end - first) - skipped;
      fn(first + skipped - range.begin, inside ? offset * image[last] : std::int64_t{-1}, n,
         start[last] + skipped * window.strides[last], window.strides[last]);
      for (std::size_t a = last; a-- > 0;) {
        if (++at[a] < window.output[a]) break;
        at[a] = 0;
      }
    }
  }

  // columns[q, w] = image element q of window w, `outside` where that is padding.
  template <typename T>
  void gather(const T* source, T outside, T* columns) const {
    gather(source, outside, {0, windows}, columns);
  }

  // Of the windows of a range, which `columns` begins with.
  template <typename T>
  void gather(const T* source, T outside, Range range, T* columns) const {
    const std::int64_t width = image.back();
    for (std::int64_t q = 0; q < kernel_size; ++q) {
      T* to = columns + q * range.size();
      for_rows(q, range,
               [&](std::int64_t first, std::int64_t base, std::int64_t n, std::int64_t column,
                   std::int64_t step) {
                 if (base < 0) {
                   std::fill_n(to + first, n, outside);
                   return;
                 }
                 for (std::int64_t i = 0; i < n; ++i, column += step) {
                   to[first + i] = column >= 0 && column < width ? source[base + column] : outside;
                 }
               });
    }
  }

  // image += columns, each element where gather() would have read it.
  template <typename T>
  void scatter_add(const T* columns, T* target) const {
    const std::int64_t width = image.back();
    for (std::int64_t q = 0; q < kernel_size; ++q) {
      const T* from = columns + q * windows;
      for_rows(q, {0, windows},
               [&](std::int64_t first, std::int64_t base, std::int64_t n, std::int64_t column,
                   std::int64_t step) {
                 if (base < 0) return;
                 for (std::int64_t i = 0; i < n; ++i, column += step) {
                   if (column >= 0 && column < width) {
                     target[base + column] =
                         static_cast<T>(target[base + column] + from[first + i]);
                   }
                 }
               });
    }
  }
};

}  // namespace xrt::native
