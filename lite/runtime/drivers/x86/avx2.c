/* SPDX-License-Identifier: Apache-2.0
 * AVX2 with FMA and F16C: a block of 16 channels is two registers. */
#include <immintrin.h>

#include "x86.h"

#define INLINE static inline __attribute__((always_inline))
#define HALF 8 /* channels of a register */

static void mac_f32(const xrt_tile* t) { xrt_x86_sum_f32_avx2(t, NULL); }
static void mac_f16(const xrt_tile* t) { xrt_x86_sum_f16_avx2(t, NULL); }

/* Exact: bytes become 16-bit numbers, whose pairs of products add up in 32 bits. A register holds
 * four channels, two sums each, which are added at the end. */
INLINE void mac_int8_row(const xrt_tile* t, int32_t r) {
  __m256i acc[4];
  for (int q = 0; q < 4; ++q) acc[q] = _mm256_setzero_si256();
  for (int32_t s = 0; s < t->segments; ++s) {
    const uint8_t* row = (const uint8_t*)t->rows[s][r];
    const uint8_t* w = (const uint8_t*)t->w + s * t->segment_bytes;
    for (int32_t k = 0; k < t->run; ++k, w += XRT_TILE_BLOCK * 4) {
      int32_t four;
      memcpy(&four, row + 4 * (int64_t)k, 4);
      const __m128i bytes = _mm_set1_epi32(four ^ (int32_t)t->flip);
      const __m256i x = _mm256_cvtepu8_epi16(bytes);
      for (int q = 0; q < 4; ++q) {
        const __m256i f =
            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(const void*)(w + 16 * q)));
        acc[q] = _mm256_add_epi32(acc[q], _mm256_madd_epi16(x, f));
      }
    }
  }
  int32_t* sums = (int32_t*)t->acc + r * XRT_TILE_BLOCK;
  for (int h = 0; h < 2; ++h) {
    const __m256i pairs = _mm256_hadd_epi32(acc[2 * h], acc[2 * h + 1]);
    __m256i v = _mm256_permute4x64_epi64(pairs, 0xd8);
    __m256i* at = (__m256i*)(void*)(sums + h * HALF);
    if (t->accumulate) v = _mm256_add_epi32(v, _mm256_loadu_si256(at));
    _mm256_storeu_si256(at, v);
  }
}

static void mac_q8(const xrt_tile* t) {
  for (int32_t r = 0; r < t->row_count; ++r) mac_int8_row(t, r);
}

/* Up to sixteen channels that may be cut go through a buffer. */
INLINE void store_f32(const xrt_tile_finish* f, const float* acc, int32_t c, const uint8_t* r,
                      uint8_t* y) {
  const int32_t count = f->channels - c < XRT_TILE_BLOCK ? f->channels - c : XRT_TILE_BLOCK;
  const float* bias = f->bias ? (const float*)f->bias + c : NULL;
  const float* other = r ? (const float*)(const void*)r + c : NULL;
  float* out = (float*)(void*)y + c;
  if (count == XRT_TILE_BLOCK) {
    for (int h = 0; h < XRT_TILE_BLOCK; h += HALF) {
      __m256 v = _mm256_mul_ps(_mm256_loadu_ps(acc + h), _mm256_set1_ps(f->alpha));
      if (bias) v = _mm256_add_ps(v, _mm256_loadu_ps(bias + h));
      if (other) v = _mm256_add_ps(v, _mm256_loadu_ps(other + h));
      if (f->clip)
        v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(f->lo)), _mm256_set1_ps(f->hi));
      _mm256_storeu_ps(out + h, v);
    }
    return;
  }
  for (int32_t i = 0; i < count; ++i) {
    float v = acc[i] * f->alpha;
    if (bias) v += bias[i];
    if (other) v += other[i];
    out[i] = f->clip ? xrt_clip(v, f->lo, f->hi) : v;
  }
}

INLINE __m256i widen(const uint8_t* p, int is_u8) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i*)(const void*)p);
  return is_u8 ? _mm256_cvtepu8_epi32(bytes) : _mm256_cvtepi8_epi32(bytes);
}

INLINE void store_q8(const xrt_tile_finish* f, const int32_t* acc, int32_t c, const uint8_t* r,
                     uint8_t* y) {
  const int32_t count = f->channels - c < XRT_TILE_BLOCK ? f->channels - c : XRT_TILE_BLOCK;
  /* Copies of what may end here, so that whole registers are read. */
  int32_t factor_sums[XRT_TILE_BLOCK] = {0}, bias[XRT_TILE_BLOCK] = {0};
  float scale[XRT_TILE_BLOCK] = {0};
  uint8_t other[XRT_TILE_BLOCK] = {0}, out[XRT_TILE_BLOCK];
  if (f->factor_sums) memcpy(factor_sums, f->factor_sums + c, 4 * (size_t)count);
  if (f->bias) memcpy(bias, (const int32_t*)f->bias + c, 4 * (size_t)count);
  if (r) memcpy(other, r + c, (size_t)count);
  memcpy(scale, f->scale + c, 4 * (size_t)count);
  const int is_u8 = f->y_dtype == XRT_LITE_U8;
  for (int h = 0; h < XRT_TILE_BLOCK; h += HALF) {
    __m256i sum = _mm256_loadu_si256((const __m256i*)(const void*)(acc + h));
    const __m256i w = _mm256_loadu_si256((const __m256i*)(const void*)(factor_sums + h));
    sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(w, _mm256_set1_epi32(f->x_zero)));
    sum = _mm256_add_epi32(sum, _mm256_loadu_si256((const __m256i*)(const void*)(bias + h)));
    __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(scale + h));
    if (r) {
      const __m256i wide = _mm256_sub_epi32(widen(other + h, f->r_dtype == XRT_LITE_U8),
                                            _mm256_set1_epi32(f->r_zero));
      v = _mm256_add_ps(v, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(f->r_scale)));
    }
    if (f->clip) v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(f->lo)), _mm256_set1_ps(f->hi));
    v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(-1024.0f)), _mm256_set1_ps(1024.0f));
    __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(f->y_zero));
    q = _mm256_max_epi32(q, _mm256_set1_epi32(is_u8 ? 0 : -128));
    q = _mm256_min_epi32(q, _mm256_set1_epi32(is_u8 ? 255 : 127));
    int32_t wide[HALF];
    _mm256_storeu_si256((__m256i*)(void*)wide, q);
    for (int i = 0; i < HALF; ++i) out[h + i] = (uint8_t)wide[i];
  }
  memcpy(y + c, out, (size_t)count);
}

static void finish_f32(const xrt_tile_finish* f) {
  const float* acc = (const float*)f->acc;
  for (int32_t i = 0; i < f->row_count; ++i)
    for (int32_t b = 0; b < f->block_count; ++b, acc += XRT_TILE_BLOCK)
      store_f32(f, acc, b * XRT_TILE_BLOCK, f->r ? f->r + i * f->r_row : NULL, f->y + i * f->y_row);
}

static void finish_q8(const xrt_tile_finish* f) {
  const int32_t* acc = (const int32_t*)f->acc;
  for (int32_t i = 0; i < f->row_count; ++i)
    for (int32_t b = 0; b < f->block_count; ++b, acc += XRT_TILE_BLOCK)
      store_q8(f, acc, b * XRT_TILE_BLOCK, f->r ? f->r + i * f->r_row : NULL, f->y + i * f->y_row);
}

static void depthwise_f32(const xrt_tile_depthwise* d) {
  for (int32_t i = 0; i < d->count; ++i) {
    for (int32_t c = 0; c < d->channels; c += XRT_TILE_BLOCK) {
      float acc[XRT_TILE_BLOCK] = {0};
      if (d->channels - c >= XRT_TILE_BLOCK) {
        __m256 a0 = _mm256_setzero_ps(), a1 = a0;
        for (int32_t t = 0; t < d->tap_count; ++t) {
          const float* w = (const float*)d->w + (int64_t)d->w_index[t] * d->channels + c;
          const float* x = (const float*)(const void*)(d->taps[t] + i * d->x_step) + c;
          a0 = _mm256_fmadd_ps(_mm256_loadu_ps(x), _mm256_loadu_ps(w), a0);
          a1 = _mm256_fmadd_ps(_mm256_loadu_ps(x + HALF), _mm256_loadu_ps(w + HALF), a1);
        }
        _mm256_storeu_ps(acc, a0);
        _mm256_storeu_ps(acc + HALF, a1);
      } else {
        for (int32_t t = 0; t < d->tap_count; ++t) {
          const float* w = (const float*)d->w + (int64_t)d->w_index[t] * d->channels + c;
          const float* x = (const float*)(const void*)(d->taps[t] + i * d->x_step) + c;
          for (int32_t k = 0; k < d->channels - c; ++k) acc[k] += x[k] * w[k];
        }
      }
      store_f32(&d->finish, acc, c, d->finish.r ? d->finish.r + i * d->r_step : NULL,
                d->finish.y + i * d->y_step);
    }
  }
}

static void depthwise_q8(const xrt_tile_depthwise* d) {
  const __m256i zero = _mm256_set1_epi32(d->finish.x_zero);
  for (int32_t i = 0; i < d->count; ++i) {
    for (int32_t c = 0; c < d->channels; c += XRT_TILE_BLOCK) {
      const int32_t count = d->channels - c;
      int32_t acc[XRT_TILE_BLOCK] = {0};
      if (count >= XRT_TILE_BLOCK) {
        __m256i a[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int32_t t = 0; t < d->tap_count; ++t) {
          const uint8_t* w = (const uint8_t*)d->w + (int64_t)d->w_index[t] * d->channels + c;
          const uint8_t* x = d->taps[t] + i * d->x_step + c;
          for (int h = 0; h < 2; ++h) {
            const __m256i v = _mm256_sub_epi32(widen(x + h * HALF, !d->x_signed), zero);
            a[h] = _mm256_add_epi32(a[h], _mm256_mullo_epi32(v, widen(w + h * HALF, 0)));
          }
        }
        for (int h = 0; h < 2; ++h) _mm256_storeu_si256((__m256i*)(void*)(acc + h * HALF), a[h]);
      } else {
        for (int32_t t = 0; t < d->tap_count; ++t) {
          const int8_t* w = (const int8_t*)d->w + (int64_t)d->w_index[t] * d->channels + c;
          const uint8_t* x = d->taps[t] + i * d->x_step + c;
          for (int32_t k = 0; k < count; ++k)
            acc[k] += (d->x_signed ? (int32_t)(int8_t)x[k] : (int32_t)x[k]) * w[k] -
                      d->finish.x_zero * w[k];
        }
      }
      store_q8(&d->finish, acc, c, d->finish.r ? d->finish.r + i * d->r_step : NULL,
               d->finish.y + i * d->y_step);
    }
  }
}

/* These loops are left to the compiler, which has AVX2 here. */
static void max_f32(float* restrict y, const float* restrict x, int32_t count) {
  for (int32_t c = 0; c < count; ++c) y[c] = x[c] > y[c] ? x[c] : y[c];
}

static void add_f32(float* restrict y, const float* restrict x, int32_t count) {
  for (int32_t c = 0; c < count; ++c) y[c] += x[c];
}

static void max_u8(uint8_t* restrict y, const uint8_t* restrict x, int32_t count, uint8_t flip) {
  for (int32_t c = 0; c < count; ++c) {
    const uint8_t a = x[c] ^ flip, b = y[c] ^ flip;
    y[c] = (uint8_t)((a > b ? a : b) ^ flip);
  }
}

const xrt_tile_isa xrt_x86_avx2 = {{0, 6, 0, 0, 0},
                                   1,
                                   0,
                                   mac_f32,
                                   mac_f16,
                                   mac_q8,
                                   finish_f32,
                                   finish_q8,
                                   depthwise_f32,
                                   depthwise_q8,
                                   max_f32,
                                   add_f32,
                                   max_u8,
                                   xrt_x86_sum_f32_avx2,
                                   xrt_x86_sum_f16_avx2,
                                   xrt_x86_depthwise_row_avx2,
                                   xrt_x86_pool_avx2,
                                   NULL,
                                   NULL};
