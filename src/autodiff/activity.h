// SPDX-License-Identifier: Apache-2.0
// Which values a gradient could reach.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "xrt/graph.h"

namespace xrt::autodiff {

// float16, bfloat16, float32 or float64.
bool is_real(const Type& type);

// The type of a value's gradient: its own where it is real. A number that QuantizeLinear makes of a
// real one has a gradient of that one's element type, which only DequantizeLinear gives. Nothing
// for another value.
std::optional<Type> gradient_type(const Graph& graph, ValueId value);
// Whether input i of the node may pass a gradient on, as far as its type tells.
bool may_pass(const Graph& graph, const Node& node, std::size_t i);

// By value: whether it leads to `loss` through inputs that have a derivative. A node without a rule
// counts as if it had one.
XRT_API std::vector<bool> leading_to(const Graph& graph, ValueId loss);

}  // namespace xrt::autodiff
