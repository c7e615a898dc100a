/* SPDX-License-Identifier: Apache-2.0
 * Sums of float32 with AVX-512: tiles of `rows` x `blocks` registers, up to the result. */
#include "finish_avx512.h"

XRT_INLINE __m512 factors(const uint8_t* w, const int half) {
  return half ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(const void*)w))
              : _mm512_loadu_ps((const float*)(const void*)w);
}

/* Constant arguments: each call is one kernel. */
XRT_INLINE void sum_tile(const xrt_tile* t, const xrt_tile_finish* f, const int rows,
                         const int blocks, const int half) {
  __m512 acc[XRT_TILE_ROWS][XRT_TILE_BLOCKS];
  float* sums = (float*)t->acc;
  for (int r = 0; r < rows; ++r)
    for (int b = 0; b < blocks; ++b)
      acc[r][b] = t->accumulate ? _mm512_loadu_ps(sums + (r * blocks + b) * XRT_TILE_BLOCK)
                                : _mm512_setzero_ps();
  const int32_t run = t->run;
  const int64_t step = t->block_bytes, ahead_step = t->ahead_step;
  const uint8_t* ahead = t->ahead ? t->ahead : (const uint8_t*)t->w;
  for (int32_t s = 0; s < t->segments; ++s) {
    const float* row[XRT_TILE_ROWS];
    for (int r = 0; r < rows; ++r) row[r] = (const float*)t->rows[s][r];
    const uint8_t* w = (const uint8_t*)t->w + s * t->segment_bytes;
    for (int32_t k = 0; k < run; ++k) {
      __m512 v[XRT_TILE_BLOCKS];
      for (int b = 0; b < blocks; ++b) v[b] = factors(w + b * step, half);
      w += XRT_TILE_BLOCK * (half ? 2 : 4);
      _mm_prefetch((const char*)ahead, _MM_HINT_T1);
      ahead += ahead_step;
      for (int r = 0; r < rows; ++r) {
        const __m512 x = _mm512_set1_ps(row[r][k]);
        for (int b = 0; b < blocks; ++b) acc[r][b] = _mm512_fmadd_ps(x, v[b], acc[r][b]);
      }
    }
  }
  if (f == NULL) {
    for (int r = 0; r < rows; ++r)
      for (int b = 0; b < blocks; ++b)
        _mm512_storeu_ps(sums + (r * blocks + b) * XRT_TILE_BLOCK, acc[r][b]);
    return;
  }
  for (int b = 0; b < blocks; ++b) {
    const int32_t c = b * XRT_TILE_BLOCK;
    if (c >= f->channels) break;
    const xrt_finish_block to = xrt_finish_of(f, c);
    const uint8_t* other = f->r ? f->r + 4 * (int64_t)c : NULL;
    uint8_t* y = f->y + 4 * (int64_t)c;
    for (int r = 0; r < rows; ++r) {
      if (r >= f->row_count) break;
      xrt_finish_store(&to, acc[r][b], other ? other + r * f->r_row : NULL, y + r * f->y_row);
    }
  }
}

/* The least kernel that has all the rows. */
#define UP_TO(R, B, HALF)       \
  if (t->row_count <= (R)) {    \
    sum_tile(t, f, R, B, HALF); \
    return;                     \
  }
#define SUMS(NAME, HALF)                                   \
  void NAME(const xrt_tile* t, const xrt_tile_finish* f) { \
    switch (t->block_count) {                              \
      case 1:                                              \
        UP_TO(1, 1, HALF)                                  \
        UP_TO(4, 1, HALF)                                  \
        UP_TO(7, 1, HALF)                                  \
        UP_TO(10, 1, HALF)                                 \
        sum_tile(t, f, 14, 1, HALF);                       \
        return;                                            \
      case 2:                                              \
        UP_TO(1, 2, HALF)                                  \
        UP_TO(3, 2, HALF)                                  \
        UP_TO(6, 2, HALF)                                  \
        UP_TO(8, 2, HALF)                                  \
        UP_TO(10, 2, HALF)                                 \
        sum_tile(t, f, 12, 2, HALF);                       \
        return;                                            \
      case 3:                                              \
        UP_TO(1, 3, HALF)                                  \
        UP_TO(2, 3, HALF)                                  \
        UP_TO(4, 3, HALF)                                  \
        UP_TO(6, 3, HALF)                                  \
        UP_TO(7, 3, HALF)                                  \
        sum_tile(t, f, 8, 3, HALF);                        \
        return;                                            \
      default:                                             \
        UP_TO(1, 4, HALF)                                  \
        UP_TO(2, 4, HALF)                                  \
        UP_TO(3, 4, HALF)                                  \
        UP_TO(4, 4, HALF)                                  \
        UP_TO(5, 4, HALF)                                  \
        sum_tile(t, f, 6, 4, HALF);                        \
    }                                                      \
  }

SUMS(xrt_x86_sum_f32_avx512, 0)
SUMS(xrt_x86_sum_f16_avx512, 1)
