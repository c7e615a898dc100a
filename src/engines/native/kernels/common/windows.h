// SPDX-License-Identifier: Apache-2.0
// Walking over the elements of windows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/window.h"

namespace xrt::native {

// How many of 0, 1, … below `limit` satisfy start + i · step < end.
inline std::int64_t steps_below(std::int64_t start, std::int64_t step, std::int64_t end,
                                std::int64_t limit) {
  if (start >= end) return 0;
  return std::min(limit, (end - start + step - 1) / step);
}

// At most so many elements of a window lie in the image.
inline std::int64_t most_inside(const Window& w, const Dims& image) {
  std::int64_t count = 1;
  for (std::size_t a = 0; a < image.size(); ++a) count *= std::min(w.kernel[a], image[a]);
  return count;
}

// Elements of a window, by their number in it: from lo up to and without hi.
struct Span {
  std::int64_t lo = 0, hi = 0;
  std::int64_t size() const { return std::max<std::int64_t>(hi - lo, 0); }
};

// Those of axis `a` that lie in the image where the window is at output position `at`.
inline Span inside(const Window& w, const Dims& image, std::size_t a, std::int64_t at) {
  const std::int64_t start = at * w.strides[a] - w.pads_begin[a];
  return {steps_below(start, w.dilations[a], 0, w.kernel[a]),
          steps_below(start, w.dilations[a], image[a], w.kernel[a])};
}

// How many of axis `a` lie in the image or its padding.
inline std::int64_t inside_padding(const Window& w, const Dims& image, std::size_t a,
                                   std::int64_t at) {
  const std::int64_t start = at * w.strides[a] - w.pads_begin[a];
  return steps_below(start, w.dilations[a], image[a] + w.pads_end[a], w.kernel[a]);
}

// Where one window lies: per axis the place of its first element, and which of its elements, by
// their number, are inside the image: from `first` up to and without `past`.
struct WindowPlace {
  WindowPlace(const Window& w, const Dims& image, std::int64_t index)
      : start(image.size()), first(image.size()), past(image.size()) {
    for (std::size_t a = image.size(); a-- > 0;) {
      const std::int64_t at = index % w.output[a];
      index /= w.output[a];
      start[a] = at * w.strides[a] - w.pads_begin[a];
      const Span span = inside(w, image, a, at);
      first[a] = span.lo;
      past[a] = span.hi;
      count *= span.size();
      // A count that does not fit is far beyond any that a mean is taken over.
      if (__builtin_mul_overflow(padded, inside_padding(w, image, a, at), &padded)) {
        fail("a window of shape " + shape_text(w.kernel) + " has too many elements");
      }
    }
  }

  Dims start, first, past;
  std::int64_t count = 1;   // how many elements lie in the image
  std::int64_t padded = 1;  // in the image and its padding
};

// Calls fn(offset in the image) for each element of one window that is inside the image; returns
// where it lies. A window may be much larger than the image: only what is inside is walked over.
template <typename F>
WindowPlace for_window(const Window& w, const Dims& image, std::int64_t index, F&& fn) {
  WindowPlace place(w, image, index);
  if (place.count == 0) return place;
  const std::size_t rank = image.size();
  Dims at = place.first;
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < rank; ++a) {
      offset = offset * image[a] + place.start[a] + at[a] * w.dilations[a];
    }
    fn(offset);
    std::size_t a = rank;
    while (a-- > 0) {
      if (++at[a] < place.past[a]) break;
      at[a] = place.first[a];
    }
    if (a == SIZE_MAX) return place;
  }
}

}  // namespace xrt::native
