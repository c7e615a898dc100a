/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions, products and pools of processors with vector registers: what is the same for all
 * of them. A driver (x86, arm) gives an xrt_tile_isa, the few loops that are written in its
 * instructions.
 *
 * Packing of constant factors: 16 output channels a block, pack_k 1 for float32 and float16 and 4
 * for int8 (the four factors that one instruction of VNNI or of Arm's dot products takes).
 * Convolutions and products are one thing: a tile of up to XRT_TILE_ROWS rows (pixels) by 1 to 4
 * blocks of channels, whose factors are streamed once per tile. Each row is reached by a pointer,
 * one for every tap of the window, so that nothing is copied; a tap outside of the image points to
 * a buffer of zeros. */
#ifndef XRT_LITE_TILES_H_
#define XRT_LITE_TILES_H_

#include "../drivers/generic/generic.h"
#include "kernel_math.h"
#include "xrt_lite_hal.h"

#define XRT_TILE_BLOCK 16 /* channels */
#define XRT_TILE_ROWS 14  /* at most, in a tile */
#define XRT_TILE_BLOCKS 4 /* at most, in a tile */

/* acc[row][block][16] (+)= sum over segments s and i < run of rows[s][row][i] * w[block][s, i]. */
typedef struct xrt_tile {
  const void* const (*rows)[XRT_TILE_ROWS]; /* by segment; all XRT_TILE_ROWS are readable */
  int32_t row_count, block_count, segments;
  int32_t run; /* elements of a segment; of int8: groups of four */
  const void* w;
  int64_t block_bytes;   /* from a block of channels to the next */
  int64_t segment_bytes; /* from a segment's factors to the next's */
  uint32_t flip;         /* int8: 0x80808080 where rows have the other sign than mac_q8's, else 0 */
  int32_t accumulate;    /* 0: acc is set, else added to */
  void* acc;
  /* sum_*: what is fetched into the caches meanwhile, that many bytes with each element of a row.
   */
  const uint8_t* ahead;
  int64_t ahead_step;
} xrt_tile;

/* What becomes of a tile's sums. */
typedef struct xrt_tile_finish {
  const void* acc;
  int32_t row_count, block_count;
  int32_t channels; /* that exist, from the tile's first; the last block may be cut */
  float alpha;
  const void* bias; /* from here on: of the tile's first channel, or null */
  const float* scale;
  const int32_t* factor_sums; /* int8: sums of the factors by channel, or null */
  int32_t x_zero;             /* int8: what was added to every element of the rows */
  const uint8_t* r;
  uint8_t* y;
  int64_t r_row, y_row; /* bytes */
  int32_t clip;
  float lo, hi;
  int32_t r_dtype, r_zero, y_dtype, y_zero;
  float r_scale;
} xrt_tile_finish;

/* A row of depthwise output: `count` pixels from `y`, all of whose taps lie inside. */
typedef struct xrt_tile_depthwise {
  const uint8_t* const* taps; /* the first pixel's, by tap */
  const void* w;              /* [tap of the list][channels], rows of `w_row` elements */
  const int32_t* w_index;     /* by tap of the list: its row */
  int32_t tap_count, channels, count;
  int64_t x_step, y_step, r_step; /* bytes from a pixel to the next */
  xrt_tile_finish finish;         /* r and y of the first pixel; bias, scale by channel */
  int32_t x_signed;
} xrt_tile_depthwise;

/* A row of depthwise output in float32, borders and all; windows are `size` x `size`, 3 or 5,
 * without dilation, `stride` 1 or 2. */
typedef struct xrt_tile_depthwise_row {
  const uint8_t* rows[5]; /* of the image, by row of the window; null: outside */
  const float* w;         /* [size][size][channels] */
  int32_t size, stride, channels, count;
  int32_t iw, x_first;    /* pixels of a row of the image; where the first window begins in it */
  int64_t x_step;         /* bytes from a pixel of the image to the next */
  xrt_tile_finish finish; /* r and y of the first pixel, r_row and y_row to the next */
} xrt_tile_depthwise_row;

/* A depthwise convolution of int8, without residual; windows of up to 4 x 3 (rows x columns),
 * without dilation, stride_w 1 or 2. */
typedef struct xrt_tile_depthwise_image {
  const xrt_k_conv* p;
  const uint8_t* x;
  const void* w; /* [kh][kw][channels] */
  const float* scale;
  const int32_t* bias; /* or null */
  uint8_t* y;
} xrt_tile_depthwise_image;

typedef struct xrt_tile_isa {
  int32_t rows_for[XRT_TILE_BLOCKS + 1]; /* by blocks of a tile: the rows that fill the registers */
  int32_t max_blocks;
  int32_t signed_rows; /* mac_q8 multiplies signed rows, else unsigned ones */
  void (*mac_f32)(const xrt_tile* tile);
  void (*mac_f16)(const xrt_tile* tile); /* float16 factors */
  void (*mac_q8)(const xrt_tile* tile);
  void (*finish_f32)(const xrt_tile_finish* finish);
  void (*finish_q8)(const xrt_tile_finish* finish);
  void (*depthwise_f32)(const xrt_tile_depthwise* work);
  void (*depthwise_q8)(const xrt_tile_depthwise* work);
  void (*max_f32)(float* y, const float* x, int32_t count);
  void (*add_f32)(float* y, const float* x, int32_t count);
  /* Of unsigned bytes; `flip` 0x80 makes it one of signed bytes. */
  void (*max_u8)(uint8_t* y, const uint8_t* x, int32_t count, uint8_t flip);
  /* mac_f32 and finish_f32 in one, of float32 and of float16 factors: sums go from the registers to
   * their place; with no `finish` they go to acc. Null: the driver has the two steps only. */
  void (*sum_f32)(const xrt_tile* tile, const xrt_tile_finish* finish);
  void (*sum_f16)(const xrt_tile* tile, const xrt_tile_finish* finish);
  /* May be null, too: other functions do the same. */
  void (*depthwise_row_f32)(const xrt_tile_depthwise_row* work);
  /* y[c] = the largest of the taps, or their sum over `divisor` where that is not 0. */
  void (*pool_f32)(float* y, const float* const* taps, int32_t tap_count, int32_t channels,
                   float divisor);
  /* y[c] = the largest of the taps; `flip` as for max_u8. */
  void (*pool_u8)(uint8_t* y, const uint8_t* const* taps, int32_t tap_count, int32_t channels,
                  uint8_t flip);
  /* Rows [begin, end) of all images' output, borders and all. */
  void (*depthwise_rows_q8)(const xrt_tile_depthwise_image* work, int32_t begin, int32_t end);
} xrt_tile_isa;

/* What is added to the values of int8 rows when their bytes are flipped. */
static inline int32_t xrt_tile_flip_shift(const xrt_tile_isa* isa) {
  return isa->signed_rows ? -128 : 128;
}

/* Whether rows of that type are flipped before they are multiplied. */
static inline int xrt_tile_flips(const xrt_tile_isa* isa, int32_t x_dtype) {
  return (x_dtype == XRT_LITE_I8) != (isa->signed_rows != 0);
}

/* The kernels, whatever the instruction set. */
xrt_lite_status xrt_tile_conv(const xrt_kernel_call* call, const xrt_tile_isa* isa);
xrt_lite_status xrt_tile_conv_q8(const xrt_kernel_call* call, const xrt_tile_isa* isa);
xrt_lite_status xrt_tile_depthwise_conv(const xrt_kernel_call* call, const xrt_tile_isa* isa);
xrt_lite_status xrt_tile_depthwise_conv_q8(const xrt_kernel_call* call, const xrt_tile_isa* isa);
xrt_lite_status xrt_tile_gemm(const xrt_kernel_call* call, const xrt_tile_isa* isa);
xrt_lite_status xrt_tile_gemm_q8(const xrt_kernel_call* call, const xrt_tile_isa* isa);
xrt_lite_status xrt_tile_pool(const xrt_kernel_call* call, const xrt_tile_isa* isa);

/* Defines `NAME_table`, the kernels with the instruction set ISA, EW for pointwise programs; those
 * that have no tiles are the portable ones. */
#define XRT_TILE_TABLE(NAME, ISA, EW) \
  XRT_TILE_KERNELS(NAME, ISA)         \
  XRT_TILE_TABLE_OF(NAME, NAME, EW, NAME##_conv_q8, NAME##_gemm_q8)

#define XRT_TILE_KERNELS(NAME, ISA)                                      \
  static xrt_lite_status NAME##_conv(const xrt_kernel_call* c) {         \
    return xrt_tile_conv(c, &(ISA));                                     \
  }                                                                      \
  static xrt_lite_status NAME##_conv_q8(const xrt_kernel_call* c) {      \
    return xrt_tile_conv_q8(c, &(ISA));                                  \
  }                                                                      \
  static xrt_lite_status NAME##_depthwise(const xrt_kernel_call* c) {    \
    return xrt_tile_depthwise_conv(c, &(ISA));                           \
  }                                                                      \
  static xrt_lite_status NAME##_depthwise_q8(const xrt_kernel_call* c) { \
    return xrt_tile_depthwise_conv_q8(c, &(ISA));                        \
  }                                                                      \
  static xrt_lite_status NAME##_gemm(const xrt_kernel_call* c) {         \
    return xrt_tile_gemm(c, &(ISA));                                     \
  }                                                                      \
  static xrt_lite_status NAME##_gemm_q8(const xrt_kernel_call* c) {      \
    return xrt_tile_gemm_q8(c, &(ISA));                                  \
  }                                                                      \
  static xrt_lite_status NAME##_pool(const xrt_kernel_call* c) { return xrt_tile_pool(c, &(ISA)); }

/* A table TABLE_table of the kernels NAME, with others for int8 sums. */
#define XRT_TILE_TABLE_OF(TABLE, NAME, EW, CONV_Q8, GEMM_Q8)  \
  static const xrt_lite_kernel TABLE##_table[XRT_K_COUNT] = { \
      [XRT_K_CONV_F32] = NAME##_conv,                         \
      [XRT_K_CONV_Q8] = CONV_Q8,                              \
      [XRT_K_DWCONV_F32] = NAME##_depthwise,                  \
      [XRT_K_DWCONV_Q8] = NAME##_depthwise_q8,                \
      [XRT_K_GEMM_F32] = NAME##_gemm,                         \
      [XRT_K_GEMM_Q8] = GEMM_Q8,                              \
      [XRT_K_POOL] = NAME##_pool,                             \
      [XRT_K_EW] = EW,                                        \
      XRT_GENERIC_ROWS,                                       \
  };

#endif /* XRT_LITE_TILES_H_ */
