// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "xrt/engine.h"

namespace xrt::cuda {

// Strides, dilations and pads are written out in canonical nodes.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, begin, end;
};
std::optional<Window> window_of(const GraphView& graph, const NodeView& node);
// Of convolutions and of what they and pools change with.
Support supports_windows(const GraphView& graph, const NodeView& node);
// How cuDNN's images lie: channels last, but in float32, where products of whole planes are faster
// (on an H200).
std::vector<std::size_t> image_order(DType dtype, std::size_t rank);

}  // namespace xrt::cuda
