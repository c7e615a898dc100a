// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with packed weights, compiled for several instruction sets as
// vector_ops.h.
//
// Weights lie in panels of so many columns as the registers hold sums of: [depth][panel] of floats,
// [depth / 4][panel][4] of bytes, and BlockPanel.
#pragma once

#include <cstdint>

namespace xrt::native {

// A panel of weights of 4 or 8 bits with a scale for each block of numbers of a column:
//   w[k][j] = (number[k][j] - zero) * scales[k / block][j] + offsets[k / block][j]
// where the zero is zeros[k / block][j], or `zero` where there are no such. The numbers, from -8 or
// -128 on, lie in words of 32 bits: [depth / 8][panel] with eight, or [depth / 4][panel] with four
// numbers of one column. Of eight, the first four are the low halves of the bytes. Blocks begin
// with a word.
struct BlockPanel {
  const void* words;
  // [blocks][panel], of float32, or of float16 where `has_halves`.
  const void* scales;
  const void* offsets;       // null: all 0
  const std::int8_t* zeros;  // [blocks][panel]; null: `zero` everywhere
  std::int32_t zero;
  std::int64_t depth;  // whole words
  std::int64_t block;
  int bits;
  bool has_halves;

  // Whether sums of the other factor are wanted.
  bool has_totals() const { return zeros != nullptr || offsets != nullptr || zero != 0; }
};

struct PanelOps {
  std::int64_t panel;  // columns
  // y[r][j] += the sum over k < depth of x[r][k] * w[k][j], for all columns of one panel. `x_step`
  // and `y_step` are elements from row to row.
  void (*multiply)(const float* x, std::int64_t x_step, std::int64_t rows, std::int64_t depth,
                   const float* w, float* y, std::int64_t y_step);
  // y[r][j] = the sum, exact, over k < 4 * quads of x[r][k] * w[k][j]. Where a processor has AVX2
  // and no VNNI, byte_tiles.h is faster.
  void (*multiply_bytes)(const std::uint8_t* x, std::int64_t x_step, std::int64_t rows,
                         std::int64_t quads, const std::int8_t* w, std::int32_t* y,
                         std::int64_t y_step);
  // y[j] += (sums[j] - x_zero * w_sums[j] - x_total * w_zeros[j]) * x_scale * w_scales[j].
  struct ByteSums {
    float x_scale;
    std::int32_t x_zero;
    std::int32_t x_total;  // of the row's bytes
    const std::int32_t* w_sums;
    const std::int32_t* w_zeros;
    const float* w_scales;
  };
  void (*add_byte_sums)(const std::int32_t* sums, float* y, std::int64_t n, const ByteSums& how);
  // Whether panels of this instruction set may have_halves.
  bool takes_halves;
  // y[r][j] += the sum over k of x[r][k] * w[k][j]. `totals`, where w has_totals(): [rows][blocks]
  // sums of x over the numbers of a block.
  void (*multiply_blocks)(const BlockPanel& w, const float* x, std::int64_t x_step,
                          std::int64_t rows, const float* totals, std::int64_t totals_step,
                          float* y, std::int64_t y_step);
  // to[k - first][j] = w[k][j]; `first` and `depth` are whole words.
  void (*expand_blocks)(const BlockPanel& w, std::int64_t first, std::int64_t depth, float* to);
  // y[r][j] += the sum over k of x[r][k] * scales[r][k / block] * w[k][j], exact within a block.
  // x from -127 on; `totals` as above, of x; `step` elements from row to row of both.
  void (*multiply_block_bytes)(const BlockPanel& w, const std::int8_t* x, std::int64_t x_step,
                               std::int64_t rows, const float* scales, const std::int32_t* totals,
                               std::int64_t step, float* y, std::int64_t y_step);
  // y[r][t] = the sum over d < depth of x[r][d] * w[t][d]; w is dense, t < count.
  void (*dots)(const float* x, std::int64_t x_step, std::int64_t rows, const float* w,
               std::int64_t count, std::int64_t depth, float* y, std::int64_t y_step);
  // y[r][e] += the sum over t < count of x[r][t] * w[t][e]; w and y are dense, e < width.
  void (*add_weighted_rows)(const float* x, std::int64_t x_step, std::int64_t rows, const float* w,
                            std::int64_t count, std::int64_t width, float* y);
};

// Of the widest instruction set that this CPU has.
const PanelOps& panel_ops();

}  // namespace xrt::native
