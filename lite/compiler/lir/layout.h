// SPDX-License-Identifier: Apache-2.0
// Orders in memory and the strides that follow from them.
#pragma once

#include <cstdint>
#include <vector>

#include "lir/lir.h"

namespace xrt::lite {

Order identity_order(std::size_t rank);
Order image_order(std::size_t rank);  // batch, then space, then channels
// Equal but for dimensions of size 1.
bool same_memory(const Order& a, const Order& b, const Dims& dims);
// Elements from one index to the next, per logical dimension.
std::vector<std::int64_t> strides_of(const LValue& v);

}  // namespace xrt::lite
