// SPDX-License-Identifier: Apache-2.0
// Reductions of dense blocks x[outer][n][inner] over n, on all threads. Any set of axes is one such
// block, or several after each other.
#pragma once

#include <cstdint>

#include "engines/native/kernel.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

// y[outer][inner]; its elements are uint64 where kind adds up or multiplies integers. The order of
// additions depends on the shape alone, not on the threads.
void fold_block(const KernelContext& k, FoldKind kind, FoldType type, const void* x,
                std::int64_t outer, std::int64_t n, std::int64_t inner, void* y);

// The indices of the largest or smallest elements as int64[outer][inner]; n is at least 1.
void arg_block(const KernelContext& k, bool largest, bool last, DType dtype, const void* x,
               std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t* y);

// Of the e^x along n: each over their sum, the logarithm of that, or the logarithm of the sum.
enum class Exponentials : std::uint8_t { kSoftmax, kLogSoftmax, kLogSum };
// y has the shape of x and may be x; for kLogSum it is y[outer][inner].
void exponentials_block(const KernelContext& k, Exponentials kind, const float* x,
                        std::int64_t outer, std::int64_t n, std::int64_t inner, float* y);

}  // namespace xrt::native
