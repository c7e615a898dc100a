// SPDX-License-Identifier: Apache-2.0
// Weights as kernels read them (kernel.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lir/lir.h"
#include "targets/target.h"

namespace xrt::lite {

// [group][ceil(n/pack.n)][ceil(k/pack.k)][pack.n][pack.k] of `weights`, whose element of group g,
// output n and term k is at index at(g, n, k). Elements keep their size; `half`: float32 becomes
// float16.
std::string pack_factor(
    const Tensor& weights, std::int64_t groups, std::int64_t n, std::int64_t k, Packing pack,
    bool half, const std::function<std::int64_t(std::int64_t, std::int64_t, std::int64_t)>& at);
// A tensor's elements in another order in memory.
std::string reordered(const Tensor& tensor, const Order& order);
// float32 elements as float16.
std::string to_half(const std::string& floats);

}  // namespace xrt::lite
