// SPDX-License-Identifier: Apache-2.0
// What the attribute auto_pad of convolutions and pools means, in numbers. Nothing else interprets
// it: the pass canonicalize (ops/canonical.h) writes `pads` where the numbers are known, and a
// kernel that takes images of any size asks here when it sees the image.
#pragma once

#include <cstdint>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

enum class AutoPad : std::uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

// The node's auto_pad; kNotSet where it has none. kInvalidModel for a word that the standard lacks.
XRT_API AutoPad auto_pad(const Node& node);

inline bool is_same(AutoPad mode) {
  return mode == AutoPad::kSameUpper || mode == AutoPad::kSameLower;
}

// Elements added to one spatial axis.
struct AxisPadding {
  std::int64_t begin = 0, end = 0;
};

// SAME_UPPER and SAME_LOWER of one axis of `size` elements: padding for ceil(size / stride) windows
// of `extent` = (kernel - 1) · dilation + 1 elements. An odd element is added at the end (upper) or
// at the beginning (lower). With a stride of 1 the result does not depend on `size`.
XRT_API AxisPadding same_padding(AutoPad mode, std::int64_t size, std::int64_t extent,
                                 std::int64_t stride);

// One axis of a transposed convolution.
struct TransposedAxis {
  std::int64_t stride = 1;
  std::int64_t extent = 1;          // (kernel - 1) · dilation + 1
  std::int64_t output_padding = 0;  // rows behind the last window
};

struct TransposedPadding {
  std::int64_t begin = 0, end = 0;  // cut off
  std::int64_t output_padding = 0;  // at least the axis' own
};

// For a result of `output` elements made of `size`, which is what the attribute output_shape asks
// for: rows that no window reaches are output_padding. Only SAME_UPPER cuts the odd element off at
// the end.
XRT_API TransposedPadding transposed_padding(AutoPad mode, const TransposedAxis& axis,
                                             std::int64_t size, std::int64_t output);

// SAME_UPPER and SAME_LOWER without output_shape: for `size` · stride elements, but no rows that no
// window reaches. It does not depend on the size.
XRT_API TransposedPadding transposed_same_padding(AutoPad mode, const TransposedAxis& axis);

}  // namespace xrt
