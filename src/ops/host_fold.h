// SPDX-License-Identifier: Apache-2.0
// Host evaluation of the small integer arithmetic with which function bodies and exporters compute
// shapes and axes, for engines that need them as constants while they lower a function.
#pragma once

#include <optional>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// The result of a node with one output whose operands are small integer tensors, or of Shape, Size
// and Constant. Per operand: its elements if they are known, else null; its shape if it is static.
// Nothing if the node is of another kind, or not enough is known.
XRT_API std::optional<Tensor> fold_on_host(const Node& node,
                                           const std::vector<const Tensor*>& inputs,
                                           const std::vector<std::optional<Dims>>& input_dims);

}  // namespace xrt
