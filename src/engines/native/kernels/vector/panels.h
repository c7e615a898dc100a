// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with packed weights, compiled for several instruction sets as
// vector_ops.h.
//
// Weights lie in panels of so many columns as the registers hold sums of: [depth][panel] of floats,
// [depth / 4][panel][4] of bytes.
#pragma once

#include <cstdint>

namespace xrt::native {

struct PanelOps {
  std::int64_t panel;  // columns
  // y[r][j] += the sum over k < depth of x[r][k] * w[k][j], for all columns of one panel. `x_step`
  // and `y_step` are elements from row to row.
  void (*multiply)(const float* x, std::int64_t x_step, std::int64_t rows, std::int64_t depth,
                   const float* w, float* y, std::int64_t y_step);
  // y[r][j] = that sum, exact, over k < 4 * quads.
  void (*multiply_bytes)(const std::uint8_t* x, std::int64_t x_step, std::int64_t rows,
                         std::int64_t quads, const std::int8_t* w, std::int32_t* y,
                         std::int64_t y_step);
  // y[j] += (sums[j] - x_zero * w_sums[j] - x_total * w_zeros[j]) * x_scale * w_scales[j]
  struct ByteSums {
    float x_scale;
    std::int32_t x_zero;
    std::int32_t x_total;  // of the row's bytes
    const std::int32_t* w_sums;
    const std::int32_t* w_zeros;
    const float* w_scales;
  };
  void (*add_byte_sums)(const std::int32_t* sums, float* y, std::int64_t n, const ByteSums& how);
};

// Of the widest instruction set that this CPU has.
const PanelOps& panel_ops();

}  // namespace xrt::native
