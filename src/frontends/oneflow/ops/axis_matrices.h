// SPDX-License-Identifier: Apache-2.0
// Averages, resizing and padding are, axis by axis, products with a matrix [out, in]; their
// gradients are products with its transpose.
#pragma once

#include <cstdint>
#include <vector>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {

// A matrix of zeros, float32[out, in]; kUnsupported where it is too large to be made.
Tensor zero_matrix(const Lowering& l, std::int64_t out, std::int64_t in);

// `x` of `rank` dimensions, its axes from the third on multiplied with `matrices`, one each; with
// their transposes where `transposed`.
ValueId apply_matrices(Lowering& l, ValueId x, DType dtype, const std::vector<Tensor>& matrices,
                       bool transposed, std::int64_t rank);

}  // namespace xrt::oneflow
