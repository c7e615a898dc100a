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

}  // namespace xrt::cuda
