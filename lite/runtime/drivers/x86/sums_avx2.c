/* SPDX-License-Identifier: Apache-2.0
 * Sums of float32 with AVX2, up to the result: tiles, depthwise rows, pools. */
#include <immintrin.h>

#include "x86.h"

#define INLINE static inline __attribute__((always_inline))
#define HALF 8 /* channels of a register */

/* What a register of channels needs of a finish. */
typedef struct finish_half {
  __m256 alpha, bias, lo, hi;
  __m256i mask;
  int32_t whole, scaled, clip;
} finish_half;

INLINE __m256i mask_of(int32_t channels) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(channels), index);
}

INLINE finish_half finish_of(const xrt_tile_finish* f, int32_t c) {
  finish_half h;
  h.mask = mask_of(f->channels - c);
  h.whole = f->channels - c >= HALF;
  h.alpha = _mm256_set1_ps(f->alpha);
  h.scaled = f->alpha != 1.0f;
  h.bias = f->bias ? _mm256_maskload_ps((const float*)f->bias + c, h.mask) : _mm256_setzero_ps();
  h.clip = f->clip;
  h.lo = _mm256_set1_ps(f->lo);
  h.hi = _mm256_set1_ps(f->hi);
  return h;
}

INLINE void finish_store(const finish_half* h, __m256 v, const uint8_t* r, uint8_t* y) {
  const float* other = (const float*)(const void*)r;
  if (h->scaled) v = _mm256_mul_ps(v, h->alpha);
  v = _mm256_add_ps(v, h->bias);
  if (other)
    v = _mm256_add_ps(v, h->whole ? _mm256_loadu_ps(other) : _mm256_maskload_ps(other, h->mask));
  if (h->clip) v = _mm256_min_ps(_mm256_max_ps(v, h->lo), h->hi);
  if (h->whole)
    _mm256_storeu_ps((float*)(void*)y, v);
  else
    _mm256_maskstore_ps((float*)(void*)y, h->mask, v);
}

INLINE __m256 factors(const uint8_t* w, const int half) {
  return half ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)w))
              : _mm256_loadu_ps((const float*)(const void*)w);
}

/* A block of sixteen channels by up to six rows. */
INLINE void sum_tile(const xrt_tile* t, const xrt_tile_finish* f, const int rows, const int half) {
  __m256 acc[6][2];
  float* sums = (float*)t->acc;
  for (int r = 0; r < rows; ++r)
    for (int h = 0; h < 2; ++h)
      acc[r][h] = t->accumulate ? _mm256_loadu_ps(sums + r * XRT_TILE_BLOCK + h * HALF)
                                : _mm256_setzero_ps();
  const int32_t run = t->run, step = XRT_TILE_BLOCK * (half ? 2 : 4);
  const uint8_t* ahead = t->ahead ? t->ahead : (const uint8_t*)t->w;
  for (int32_t s = 0; s < t->segments; ++s) {
    const float* row[6];
    for (int r = 0; r < rows; ++r) row[r] = (const float*)t->rows[s][r];
    const uint8_t* w = (const uint8_t*)t->w + s * t->segment_bytes;
    for (int32_t k = 0; k < run; ++k, w += step) {
      const __m256 f0 = factors(w, half), f1 = factors(w + step / 2, half);
      _mm_prefetch((const char*)ahead, _MM_HINT_T1);
      ahead += t->ahead_step;
      for (int r = 0; r < rows; ++r) {
        const __m256 x = _mm256_set1_ps(row[r][k]);
        acc[r][0] = _mm256_fmadd_ps(x, f0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(x, f1, acc[r][1]);
      }
    }
  }
  for (int h = 0; h < 2; ++h) {
    if (f == NULL) {
      for (int r = 0; r < rows; ++r)
        _mm256_storeu_ps(sums + r * XRT_TILE_BLOCK + h * HALF, acc[r][h]);
      continue;
    }
    const int32_t c = h * HALF;
    if (c >= f->channels) break;
    const finish_half to = finish_of(f, c);
    for (int r = 0; r < rows; ++r) {
      if (r >= f->row_count) break;
      finish_store(&to, acc[r][h], f->r ? f->r + r * f->r_row + 4 * c : NULL,
                   f->y + r * f->y_row + 4 * c);
    }
  }
}

#define SUMS(NAME, HALF_FACTORS)                           \
  void NAME(const xrt_tile* t, const xrt_tile_finish* f) { \
    switch (t->row_count) {                                \
      case 1:                                              \
        sum_tile(t, f, 1, HALF_FACTORS);                   \
        break;                                             \
      case 2:                                              \
        sum_tile(t, f, 2, HALF_FACTORS);                   \
        break;                                             \
      case 3:                                              \
        sum_tile(t, f, 3, HALF_FACTORS);                   \
        break;                                             \
      case 4:                                              \
        sum_tile(t, f, 4, HALF_FACTORS);                   \
        break;                                             \
      case 5:                                              \
        sum_tile(t, f, 5, HALF_FACTORS);                   \
        break;                                             \
      default:                                             \
        sum_tile(t, f, 6, HALF_FACTORS);                   \
    }                                                      \
  }
SUMS(xrt_x86_sum_f32_avx2, 0)
SUMS(xrt_x86_sum_f16_avx2, 1)

#define GROUP 4 /* pixels at once */

/* As depthwise_avx512.c does it, eight channels from c on. */
INLINE void pixels(const xrt_tile_depthwise_row* d, int32_t first, int32_t c, const int size,
                   const int stride) {
  const int columns = (GROUP - 1) * stride + size;
  const int32_t at = first * stride + d->x_first;
  const int32_t begin = at < 0 ? -at : 0, end = d->iw - at;
  const int32_t count = d->count - first < GROUP ? d->count - first : GROUP;
  const finish_half to = finish_of(&d->finish, c);
  __m256 acc[GROUP];
  for (int p = 0; p < GROUP; ++p) acc[p] = _mm256_setzero_ps();
  for (int ky = 0; ky < size; ++ky) {
    if (d->rows[ky] == NULL) continue;
    const uint8_t* x = d->rows[ky] + 4 * (int64_t)c;
    int64_t place = at * d->x_step;
    const float* w = d->w + (int64_t)ky * size * d->channels + c;
    __m256 factor[5];
    for (int kx = 0; kx < size; ++kx)
      factor[kx] = _mm256_maskload_ps(w + (int64_t)kx * d->channels, to.mask);
#pragma GCC unroll 16
    for (int q = 0; q < columns; ++q, place += d->x_step) {
      if (q < begin || q >= end) continue;
      const float* from = (const float*)(const void*)(x + place);
      const __m256 v = to.whole ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, to.mask);
#pragma GCC unroll 8
      for (int kx = 0; kx < size; ++kx)
        if (q >= kx && (q - kx) % stride == 0 && (q - kx) / stride < GROUP)
          acc[(q - kx) / stride] = _mm256_fmadd_ps(v, factor[kx], acc[(q - kx) / stride]);
    }
  }
  for (int p = 0; p < GROUP; ++p) {
    if (p >= count) break;
    const int64_t pixel = first + p;
    finish_store(&to, acc[p], d->finish.r ? d->finish.r + pixel * d->finish.r_row + 4 * c : NULL,
                 d->finish.y + pixel * d->finish.y_row + 4 * (int64_t)c);
  }
}

INLINE void row(const xrt_tile_depthwise_row* d, const int size, const int stride) {
  for (int32_t first = 0; first < d->count; first += GROUP)
    for (int32_t c = 0; c < d->channels; c += HALF) pixels(d, first, c, size, stride);
}

void xrt_x86_depthwise_row_avx2(const xrt_tile_depthwise_row* d) {
  if (d->size == 3 && d->stride == 1)
    row(d, 3, 1);
  else if (d->size == 3)
    row(d, 3, 2);
  else if (d->stride == 1)
    row(d, 5, 1);
  else
    row(d, 5, 2);
}

void xrt_x86_pool_avx2(float* y, const float* const* taps, int32_t tap_count, int32_t channels,
                       float divisor) {
  for (int32_t c = 0; c < channels; c += HALF) {
    const __m256i mask = mask_of(channels - c);
    __m256 v = _mm256_maskload_ps(taps[0] + c, mask);
    if (divisor == 0) {
      for (int32_t t = 1; t < tap_count; ++t)
        v = _mm256_max_ps(_mm256_maskload_ps(taps[t] + c, mask), v);
    } else {
      for (int32_t t = 1; t < tap_count; ++t)
        v = _mm256_add_ps(v, _mm256_maskload_ps(taps[t] + c, mask));
      v = _mm256_div_ps(v, _mm256_set1_ps(divisor));
    }
    _mm256_maskstore_ps(y + c, mask, v);
  }
}
