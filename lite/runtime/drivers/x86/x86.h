/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver "x86": AVX2 or AVX-512 (with VNNI), picked when a model is loaded.
 *
 * Packing of constant factors: 16 output channels a block, pack_k 1 for float32 and float16 and 4
 * for int8 (the four factors that one VNNI instruction takes). Convolutions and products are one
 * thing: a tile of up to XRT_X86_ROWS rows (pixels) by 1 to 4 blocks of channels, whose factors are
 * streamed once per tile. Each row is reached by a pointer, one for every tap of the window, so
 * that nothing is copied; a tap outside of the image points to a buffer of zeros. */
#ifndef XRT_LITE_X86_H_
#define XRT_LITE_X86_H_

#include "kernel_math.h"
#include "xrt_lite_hal.h"

#define XRT_X86_BLOCK 16 /* channels */
#define XRT_X86_ROWS 14  /* at most, in a tile */
#define XRT_X86_BLOCKS 4 /* at most, in a tile */

/* acc[row][block][16] (+)= sum over segments s and i < run of rows[s][row][i] * w[block][s, i]. */
typedef struct xrt_x86_tile {
  const void* const (*rows)[XRT_X86_ROWS]; /* by segment; all XRT_X86_ROWS are readable */
  int32_t row_count, block_count, segments;
  int32_t run; /* elements of a segment; of int8: groups of four */
  const void* w;
  int64_t block_bytes;   /* from a block of channels to the next */
  int64_t segment_bytes; /* from a segment's factors to the next's */
  uint32_t flip;         /* int8: 0x80808080 where rows are signed, else 0 */
  int32_t accumulate;    /* 0: acc is set, else added to */
  void* acc;
} xrt_x86_tile;

/* What becomes of a tile's sums. */
typedef struct xrt_x86_finish {
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
} xrt_x86_finish;

/* A row of depthwise output: `count` pixels from `y`, all of whose taps lie inside. */
typedef struct xrt_x86_depthwise {
  const uint8_t* const* taps; /* the first pixel's, by tap */
  const void* w;              /* [tap of the list][channels], rows of `w_row` elements */
  const int32_t* w_index;     /* by tap of the list: its row */
  int32_t tap_count, channels, count;
  int64_t x_step, y_step, r_step; /* bytes from a pixel to the next */
  xrt_x86_finish finish;          /* r and y of the first pixel; bias, scale by channel */
  int32_t x_signed;
} xrt_x86_depthwise;

typedef struct xrt_x86_isa {
  int32_t rows_for[XRT_X86_BLOCKS + 1]; /* by blocks of a tile: the rows that fill the registers */
  int32_t max_blocks;
  void (*mac_f32)(const xrt_x86_tile* tile);
  void (*mac_f16)(const xrt_x86_tile* tile); /* float16 factors */
  void (*mac_q8)(const xrt_x86_tile* tile);
  void (*finish_f32)(const xrt_x86_finish* finish);
  void (*finish_q8)(const xrt_x86_finish* finish);
  void (*depthwise_f32)(const xrt_x86_depthwise* work);
  void (*depthwise_q8)(const xrt_x86_depthwise* work);
  void (*max_f32)(float* y, const float* x, int32_t count);
  void (*add_f32)(float* y, const float* x, int32_t count);
  /* Of unsigned bytes; `flip` 0x80 makes it one of signed bytes. */
  void (*max_u8)(uint8_t* y, const uint8_t* x, int32_t count, uint8_t flip);
} xrt_x86_isa;

extern const xrt_x86_isa xrt_x86_avx2, xrt_x86_avx512;

/* The kernels, whatever the instruction set. */
xrt_lite_status xrt_x86_conv(const xrt_kernel_call* call, const xrt_x86_isa* isa);
xrt_lite_status xrt_x86_conv_q8(const xrt_kernel_call* call, const xrt_x86_isa* isa);
xrt_lite_status xrt_x86_depthwise_conv(const xrt_kernel_call* call, const xrt_x86_isa* isa);
xrt_lite_status xrt_x86_depthwise_conv_q8(const xrt_kernel_call* call, const xrt_x86_isa* isa);
xrt_lite_status xrt_x86_gemm(const xrt_kernel_call* call, const xrt_x86_isa* isa);
xrt_lite_status xrt_x86_gemm_q8(const xrt_kernel_call* call, const xrt_x86_isa* isa);
xrt_lite_status xrt_x86_pool(const xrt_kernel_call* call, const xrt_x86_isa* isa);

/* Kernel tables by instruction set, "avx2" or "avx512"; null where the machine lacks it. Kernels
 * that are not the driver's own are the portable ones. */
const xrt_lite_kernel* xrt_x86_kernels(const char* name);

#endif /* XRT_LITE_X86_H_ */
