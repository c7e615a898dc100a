/* SPDX-License-Identifier: Apache-2.0
 * From sums in registers to results in float32, with AVX-512. */
#ifndef XRT_LITE_FINISH_AVX512_H_
#define XRT_LITE_FINISH_AVX512_H_

#include <immintrin.h>

#include "x86.h"

#define XRT_INLINE static inline __attribute__((always_inline))

/* Of a finish, what a block of sixteen channels needs. */
typedef struct xrt_finish_block {
  __m512 alpha, bias, lo, hi;
  __mmask16 mask; /* channels that exist */
  int32_t scaled, clip;
} xrt_finish_block;

XRT_INLINE __mmask16 xrt_mask_of(int32_t channels) {
  return channels >= XRT_TILE_BLOCK ? (__mmask16)0xffff : (__mmask16)((1u << channels) - 1u);
}

XRT_INLINE xrt_finish_block xrt_finish_of(const xrt_tile_finish* f, int32_t c) {
  xrt_finish_block b;
  b.mask = xrt_mask_of(f->channels - c);
  b.alpha = _mm512_set1_ps(f->alpha);
  b.scaled = f->alpha != 1.0f;
  b.bias = f->bias ? _mm512_maskz_loadu_ps(b.mask, (const float*)f->bias + c) : _mm512_setzero_ps();
  b.clip = f->clip;
  b.lo = _mm512_set1_ps(f->lo);
  b.hi = _mm512_set1_ps(f->hi);
  return b;
}

/* `r`, `y`: of these channels; `r` may be null. */
XRT_INLINE void xrt_finish_store(const xrt_finish_block* b, __m512 v, const uint8_t* r,
                                 uint8_t* y) {
  if (b->scaled) v = _mm512_mul_ps(v, b->alpha);
  v = _mm512_add_ps(v, b->bias);
  if (r) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(b->mask, r));
  if (b->clip) v = _mm512_min_ps(_mm512_max_ps(v, b->lo), b->hi);
  _mm512_mask_storeu_ps(y, b->mask, v);
}

#endif /* XRT_LITE_FINISH_AVX512_H_ */
