// SPDX-License-Identifier: Apache-2.0
// Orders in which the axes of values lie.
#pragma once

#include <cstddef>
#include <vector>

#include "engines/cuda/planner.h"

namespace xrt::cuda {

// Batch, plane, channels.
std::vector<std::size_t> channels_last(std::size_t rank);
// Whether the axes lie densely in this order, the last one running fastest.
bool lies_in_order(const View& view, const std::vector<std::size_t>& order);
// With the strides of single axes as the order has them.
View in_order(View view, const std::vector<std::size_t>& order);
// The view, or a copy that lies so.
View brought_to(Planner& planner, const View& from, const std::vector<std::size_t>& order);

}  // namespace xrt::cuda
