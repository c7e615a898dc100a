// SPDX-License-Identifier: Apache-2.0
// What the sizes of a node's operands must satisfy beside what the ONNX library's rules look at:
// those take a slope that does not broadcast, a window larger than what it moves over, or a list of
// pads that is too short. Kernels would read memory that is not the tensor's.
#pragma once

#include <optional>
#include <string>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// What is wrong, as far as the sizes are known; nothing where all is well.
XRT_API std::optional<std::string> sizes_refusal(const Graph& graph, const Node& node);

}  // namespace xrt
