// SPDX-License-Identifier: Apache-2.0
// What generated CUDA C++ begins with, whoever generates it: names of types, and values of half
// precision. The language is the part of CUDA C++ that a C++17 compiler takes, too, where
// threadIdx and its kin are defined: so kernels are tested without a GPU.
#pragma once

#include <string_view>

#include "xrt/export.h"

namespace xrt::cuda {

// Defines i8, u8, u16, i64, u64; float half_to_float(u16) and u16 float_to_half(float) of IEEE's
// binary16, rounded to nearest even; bfloat_to_float and float_to_bfloat likewise.
XRT_API std::string_view basic_source();

// Behind it: what multiplies on tensor cores. TensorCore<kind, is_signed>::add(c, a, b) of
// fragments, where kind is 0 for int8 (`is_signed` says of the left side whether it is int8 or
// uint8), 1 for float16 and 2 for TF32; to_tf32() and halves(); copies to shared memory that are
// under way while others are computed with, stage(), close_stage() and wait_stages(); and
// load_rows() of fragments there.
XRT_API std::string_view tensor_core_source();

}  // namespace xrt::cuda
