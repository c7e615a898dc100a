// SPDX-License-Identifier: Apache-2.0
// Numbers of few bits for a matrix, with a scale for each block of a row or column.
#pragma once

#include <cstdint>
#include <vector>

#include "xrt/tensor.h"

namespace xrt::quantization {

struct BlockForm {
  int bits = 4;
  std::int64_t block = 0;  // 0: the whole axis
  bool symmetric = true;
  bool search = true;
};

struct QuantisedBlocks {
  Tensor numbers;  // int4, uint4, int8 or uint8, of the matrix's shape
  // With blocks: the matrix's shape, but ceil(size / block) along the axis. Else [other size].
  Tensor scales;
  Tensor zeros;                  // undefined: symmetric
  double signal = 0, noise = 0;  // sums of squares
};

// A matrix's elements, of float32 or float16, as float32.
std::vector<float> matrix_numbers(const Tensor& matrix);

// Of a matrix [n, m], whose finite elements `numbers` are; blocks lie along `axis`. Scales are of
// the matrix's type.
QuantisedBlocks quantise_blocks(const Tensor& matrix, const std::vector<float>& numbers,
                                std::size_t axis, const BlockForm& form);

}  // namespace xrt::quantization
