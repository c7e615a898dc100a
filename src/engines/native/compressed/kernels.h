// SPDX-License-Identifier: Apache-2.0
// Ops of the domain "xrt.native" on constant weights of 4 and 8 bits, see compressed/weights.h:
//
//   BlockMatMul(A, Q, scale, zero, bias, offset)  A·W + bias; A is [..., k] of float32 or float16;
//                                                 `zero`, `bias` ([n]) and `offset` ([blocks, n]),
//                                                 constants, may be left out
//   BlockGather(indices, Q, scale, zero)          rows of W, for Q [rows, k]
//
// with the attributes `axis` (of Q, that blocks lie along) and `block`.
#pragma once

#include <string>
#include <vector>

#include "engines/native/kernel.h"

namespace xrt::native {

void register_compressed_kernels(KernelRegistry& registry);

// MatMul and Gemm by, and Gather from, a DequantizeLinear of such weights become these ops. Before
// constants are dequantised. Returns what people may want to know about it.
std::vector<std::string> fuse_compressed(Graph& graph);

}  // namespace xrt::native
