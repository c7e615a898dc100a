// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pools: their bounds, and those that libraries have no fast kernel
// for.
#pragma once

#include <cstdint>
#include <limits>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Of entries of kernel_shape, strides, dilations and pads: no window needs more, libraries take no
// more, and sums and products of two such numbers stay within int64.
inline constexpr std::int64_t kMostOfWindow = std::numeric_limits<std::int32_t>::max();

// Elements of a window from which columns of all windows would be much larger than the image.
inline constexpr std::int64_t kWideWindow = 256;

// Whether all dilations are 1.
XRT_API bool is_dense_window(const Node& node);

// Whether the windows of a convolution, transposed or not, lie more than one element apart.
XRT_API bool is_strided_window(const Node& node);

// Whether some entry of pads, strides, dilations or output_padding is so large that libraries which
// prepare something for each of its elements hold gigabytes for a small result, or take minutes.
XRT_API bool has_far_window(const Node& node);

// Whether a window of kWideWindow elements or more is over few channels: libraries, which have
// vectors of channels, take up to a hundred times as long as a kernel made for it, in one call that
// nobody can end. `w`: dimensions of the weights of a Conv or ConvTranspose.
XRT_API bool has_wide_window(const Node& node, const Dims& w);

// Either: what oneDNN should not have.
XRT_API bool has_slow_window(const Node& node, const Dims& w);

// Whether 'kernel_shape' has more elements than any sensible window: a library that walks over all
// of it, also where nearly all is padding, would not come to an end.
XRT_API bool is_oversized_window(const Node& node);

// Elements of a window from which pools go by axes, where they take long enough to matter.
inline constexpr std::int64_t kLargePool = 1 << 10;

// Whether a library, which does not look at the clock, may pool for more than about a second. The
// engine onnxruntime has the same rule (python/openxrt/engines/_onnxruntime_rules.py).
XRT_API bool is_long_pool(const Node& node, const Type& result);

// Whether the window of an LRN has so many channels that a library which walks over all of them for
// each element takes minutes for what native does while it looks at the clock.
XRT_API bool is_long_norm(const Node& node);

}  // namespace xrt
