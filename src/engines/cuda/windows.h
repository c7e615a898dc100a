// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and pools.
#pragma once

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

}  // namespace xrt::cuda
