/* SPDX-License-Identifier: Apache-2.0
 * int32 sums to int8 results with AVX-512, 64 channels at a time; kernel.h has the formula.
 *
 * Bounds are brought together: rounding keeps order and leaves whole numbers alone, so that
 * clipping to [lo, hi] and saturating after the rounding are one clip before it. */
#ifndef XRT_LITE_X86_Q8_ROWS_H_
#define XRT_LITE_X86_Q8_ROWS_H_

#include <immintrin.h>

#include "x86.h"

#define XRT_Q8_BLOCKS 4 /* of 16 channels, in a row of sums */

/* What a row's sums become. */
typedef struct xrt_q8_rule {
  float lo, hi;    /* of the value without y_zero */
  int32_t bounded; /* they leave less than the result's dtype: else packing saturates as well */
  int32_t y_zero, y_unsigned;
  int32_t r_zero, r_unsigned;
  float r_scale;
} xrt_q8_rule;

static inline float xrt_q8_max(float a, float b) { return a > b ? a : b; }
static inline float xrt_q8_min(float a, float b) { return a < b ? a : b; }

static inline xrt_q8_rule xrt_q8_rule_of(int32_t clip, float lo, float hi, int32_t y_dtype,
                                         int32_t y_zero, int32_t r_dtype, int32_t r_zero,
                                         float r_scale) {
  xrt_q8_rule rule;
  rule.bounded = 0;
  rule.y_unsigned = y_dtype == XRT_LITE_U8;
  rule.y_zero = y_zero;
  rule.lo = (float)((rule.y_unsigned ? 0 : -128) - y_zero);
  rule.hi = (float)((rule.y_unsigned ? 255 : 127) - y_zero);
  if (clip) {
    const float least = rule.lo, most = rule.hi;
    rule.lo = xrt_q8_min(xrt_q8_max(lo, least), most);
    rule.hi = xrt_q8_max(xrt_q8_min(hi, most), least);
    rule.bounded = rule.lo > least || rule.hi < most;
  }
  rule.r_unsigned = r_dtype == XRT_LITE_U8;
  rule.r_zero = r_zero;
  rule.r_scale = r_scale;
  return rule;
}

static inline __attribute__((always_inline)) __mmask16 xrt_q8_mask(int32_t channels) {
  return channels >= XRT_TILE_BLOCK ? (__mmask16)0xffff
         : channels > 0             ? (__mmask16)((1u << channels) - 1u)
                                    : (__mmask16)0;
}

static inline __attribute__((always_inline)) __m512 xrt_q8_residual(const xrt_q8_rule* rule,
                                                                    __m128i bytes) {
  const __m512i wide = rule->r_unsigned ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes);
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(wide, _mm512_set1_epi32(rule->r_zero))),
                       _mm512_set1_ps(rule->r_scale));
}

/* Whether no value leaves the range of int32, whatever the sums are: then packing saturates right.
 */
static inline int xrt_q8_is_small(const xrt_q8_rule* rule, const float* scale, int32_t count) {
  int small = rule->r_scale < 0x1p20f && rule->r_scale > -0x1p20f;
  for (int32_t c = 0; c < count; ++c) small &= scale[c] < 0.25f && scale[c] > -0.25f;
  return small;
}

/* Clips and rounds; y_zero is not added yet. */
static inline __attribute__((always_inline)) __m512i xrt_q8_round(const xrt_q8_rule* rule, __m512 v,
                                                                  const int bounded) {
  if (bounded)
    v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(rule->lo)), _mm512_set1_ps(rule->hi));
  return _mm512_cvtps_epi32(v);
}

/* Four vectors to 64 bytes: of each 128 bits four from q[0], q[1], q[2], q[3] in turn. */
static inline __attribute__((always_inline)) __m512i xrt_q8_pack(const xrt_q8_rule* rule,
                                                                 const __m512i q[4]) {
  const __m512i zero = _mm512_set1_epi16((short)rule->y_zero);
  const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
  const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero);
  return rule->y_unsigned ? _mm512_packus_epi16(a, b) : _mm512_packs_epi16(a, b);
}

/* Rows of sums of 1 to 4 blocks, in memory. */
typedef struct xrt_q8_rows {
  const int32_t* sums;
  int64_t sums_row; /* elements from a row to the next */
  int32_t rows, blocks;
  int32_t channels;        /* that exist in the blocks */
  const int32_t* constant; /* by channel: added to the sum, or null */
  const float* scale;
  const uint8_t* r; /* or null */
  uint8_t* y;
  int64_t r_row, y_row;
  xrt_q8_rule rule;
  int32_t small; /* xrt_q8_is_small */
} xrt_q8_rows;

static inline __attribute__((always_inline)) void xrt_q8_store(const xrt_q8_rows* f,
                                                               const int blocks, const int residual,
                                                               const int bounded) {
  const xrt_q8_rule rule = f->rule;
  __m512i constant[XRT_Q8_BLOCKS];
  __m512 scale[XRT_Q8_BLOCKS];
  __mmask16 mask[XRT_Q8_BLOCKS];
  for (int b = 0; b < blocks; ++b) {
    mask[b] = xrt_q8_mask(f->channels - b * XRT_TILE_BLOCK);
    scale[b] = _mm512_maskz_loadu_ps(mask[b], f->scale + b * XRT_TILE_BLOCK);
    constant[b] = f->constant ? _mm512_maskz_loadu_epi32(mask[b], f->constant + b * XRT_TILE_BLOCK)
                              : _mm512_setzero_si512();
  }
  const __mmask64 all = f->channels >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << f->channels) - 1;
  /* 32-bit words of a packed register, back in the order of channels. */
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int32_t i = 0; i < f->rows; ++i) {
    const int32_t* sums = f->sums + i * f->sums_row;
    const uint8_t* r = residual ? f->r + i * f->r_row : NULL;
    uint8_t* y = f->y + i * f->y_row;
    __m512i q[XRT_Q8_BLOCKS];
    for (int b = 0; b < blocks; ++b) {
      const __m512i sum =
          _mm512_add_epi32(_mm512_loadu_si512(sums + b * XRT_TILE_BLOCK), constant[b]);
      __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale[b]);
      if (residual)
        v = _mm512_add_ps(
            v, xrt_q8_residual(&rule, _mm_maskz_loadu_epi8(mask[b], r + b * XRT_TILE_BLOCK)));
      q[b] = xrt_q8_round(&rule, v, bounded);
    }
    for (int b = blocks; b < XRT_Q8_BLOCKS; ++b) q[b] = _mm512_setzero_si512();
    _mm512_mask_storeu_epi8(y, all, _mm512_permutexvar_epi32(order, xrt_q8_pack(&rule, q)));
  }
}

static inline __attribute__((always_inline)) void xrt_q8_store_blocks(const xrt_q8_rows* f,
                                                                      const int blocks) {
  const int bounded = f->rule.bounded || !f->small;
  if (f->r && bounded)
    xrt_q8_store(f, blocks, 1, 1);
  else if (f->r)
    xrt_q8_store(f, blocks, 1, 0);
  else if (bounded)
    xrt_q8_store(f, blocks, 0, 1);
  else
    xrt_q8_store(f, blocks, 0, 0);
}

static inline void xrt_q8_finish(const xrt_q8_rows* f) {
  switch (f->blocks) {
    case 1:
      xrt_q8_store_blocks(f, 1);
      break;
    case 2:
      xrt_q8_store_blocks(f, 2);
      break;
    case 3:
      xrt_q8_store_blocks(f, 3);
      break;
    default:
      xrt_q8_store_blocks(f, XRT_Q8_BLOCKS);
  }
}

#endif /* XRT_LITE_X86_Q8_ROWS_H_ */
