/* SPDX-License-Identifier: Apache-2.0
 * AVX-512 with VNNI: a block of 16 channels is one register. */
#include <immintrin.h>

#include "q8_rows.h"

#define INLINE static inline __attribute__((always_inline))

/* A tile of `rows` x `blocks` sums in registers. Constant arguments: each call is one kernel. */
INLINE void mac_int8(const xrt_tile* t, const int rows, const int blocks) {
  __m512i acc[XRT_TILE_ROWS][XRT_TILE_BLOCKS];
  int32_t* sums = (int32_t*)t->acc;
  for (int r = 0; r < rows; ++r)
    for (int b = 0; b < blocks; ++b)
      acc[r][b] = t->accumulate ? _mm512_loadu_si512(sums + (r * blocks + b) * XRT_TILE_BLOCK)
                                : _mm512_setzero_si512();
  const int32_t run = t->run;
  const int64_t step = t->block_bytes;
  const __m512i flip = _mm512_set1_epi32((int32_t)t->flip);
  for (int32_t s = 0; s < t->segments; ++s) {
    const uint8_t* row[XRT_TILE_ROWS];
    for (int r = 0; r < rows; ++r) row[r] = (const uint8_t*)t->rows[s][r];
    const uint8_t* w = (const uint8_t*)t->w + s * t->segment_bytes;
    for (int32_t k = 0; k < run; ++k) {
      __m512i f[XRT_TILE_BLOCKS];
      for (int b = 0; b < blocks; ++b) f[b] = _mm512_loadu_si512(w + b * step);
      w += XRT_TILE_BLOCK * 4;
      for (int r = 0; r < rows; ++r) {
        int32_t four;
        memcpy(&four, row[r] + 4 * (int64_t)k, 4);
        const __m512i x = _mm512_xor_si512(_mm512_set1_epi32(four), flip);
        for (int b = 0; b < blocks; ++b) acc[r][b] = _mm512_dpbusd_epi32(acc[r][b], x, f[b]);
      }
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int b = 0; b < blocks; ++b)
      _mm512_storeu_si512(sums + (r * blocks + b) * XRT_TILE_BLOCK, acc[r][b]);
}

/* As many rows as keep the units busy and fit into 32 registers, half of them, and one. */
#define BY_SIZE(CALL)                \
  switch (t->block_count) {          \
    case 1:                          \
      if (t->row_count > 7) {        \
        CALL(14, 1);                 \
      } else if (t->row_count > 1) { \
        CALL(7, 1);                  \
      } else {                       \
        CALL(1, 1);                  \
      }                              \
      break;                         \
    case 2:                          \
      if (t->row_count > 6) {        \
        CALL(12, 2);                 \
      } else if (t->row_count > 1) { \
        CALL(6, 2);                  \
      } else {                       \
        CALL(1, 2);                  \
      }                              \
      break;                         \
    case 3:                          \
      if (t->row_count > 4) {        \
        CALL(8, 3);                  \
      } else if (t->row_count > 1) { \
        CALL(4, 3);                  \
      } else {                       \
        CALL(1, 3);                  \
      }                              \
      break;                         \
    default:                         \
      if (t->row_count > 3) {        \
        CALL(6, 4);                  \
      } else if (t->row_count > 1) { \
        CALL(3, 4);                  \
      } else {                       \
        CALL(1, 4);                  \
      }                              \
      break;                         \
  }

static void mac_f32(const xrt_tile* t) { xrt_x86_sum_f32_avx512(t, NULL); }
static void mac_f16(const xrt_tile* t) { xrt_x86_sum_f16_avx512(t, NULL); }
static void mac_q8(const xrt_tile* t){
#define CALL(R, B) mac_int8(t, R, B)
    BY_SIZE(CALL)
#undef CALL
}

INLINE __mmask16 mask_of(int32_t channels) {
  return channels >= XRT_TILE_BLOCK ? (__mmask16)0xffff : (__mmask16)((1u << channels) - 1u);
}

/* Sixteen channels of one row, from their sums to the result; at channel c of the tile. */
INLINE void store_f32(const xrt_tile_finish* f, __m512 v, int32_t c, __mmask16 mask,
                      const uint8_t* r, uint8_t* y) {
  v = _mm512_mul_ps(v, _mm512_set1_ps(f->alpha));
  if (f->bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, (const float*)f->bias + c));
  if (r) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, (const float*)(const void*)r + c));
  if (f->clip) v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(f->lo)), _mm512_set1_ps(f->hi));
  _mm512_mask_storeu_ps((float*)(void*)y + c, mask, v);
}

INLINE void store_q8(const xrt_tile_finish* f, __m512i sum, int32_t c, __mmask16 mask,
                     const uint8_t* r, uint8_t* y) {
  if (f->factor_sums) {
    const __m512i w = _mm512_maskz_loadu_epi32(mask, f->factor_sums + c);
    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(w, _mm512_set1_epi32(f->x_zero)));
  }
  if (f->bias)
    sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask, (const int32_t*)f->bias + c));
  __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_maskz_loadu_ps(mask, f->scale + c));
  if (r) {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, r + c);
    const __m512i wide =
        f->r_dtype == XRT_LITE_U8 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes);
    const __m512 other = _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, _mm512_set1_epi32(f->r_zero)));
    v = _mm512_add_ps(v, _mm512_mul_ps(other, _mm512_set1_ps(f->r_scale)));
  }
  if (f->clip) v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(f->lo)), _mm512_set1_ps(f->hi));
  v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(-1024.0f)), _mm512_set1_ps(1024.0f));
  __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(f->y_zero));
  const int is_u8 = f->y_dtype == XRT_LITE_U8;
  q = _mm512_max_epi32(q, _mm512_set1_epi32(is_u8 ? 0 : -128));
  q = _mm512_min_epi32(q, _mm512_set1_epi32(is_u8 ? 255 : 127));
  _mm_mask_storeu_epi8(y + c, mask, _mm512_cvtepi32_epi8(q));
}

static void finish_f32(const xrt_tile_finish* f) {
  const float* acc = (const float*)f->acc;
  for (int32_t i = 0; i < f->row_count; ++i) {
    const uint8_t* r = f->r ? f->r + i * f->r_row : NULL;
    for (int32_t b = 0; b < f->block_count; ++b, acc += XRT_TILE_BLOCK)
      store_f32(f, _mm512_loadu_ps(acc), b * XRT_TILE_BLOCK,
                mask_of(f->channels - b * XRT_TILE_BLOCK), r, f->y + i * f->y_row);
  }
}

static void finish_q8(const xrt_tile_finish* f) {
  int32_t constant[XRT_TILE_BLOCKS * XRT_TILE_BLOCK];
  const int32_t width = f->block_count * XRT_TILE_BLOCK;
  const int32_t channels = f->channels < width ? f->channels : width;
  for (int32_t c = 0; c < channels; ++c) {
    const uint32_t bias = f->bias ? ((const uint32_t*)f->bias)[c] : 0u;
    const uint32_t sum = f->factor_sums ? (uint32_t)f->factor_sums[c] : 0u;
    constant[c] = (int32_t)(bias - (uint32_t)f->x_zero * sum);
  }
  xrt_q8_rows rows;
  rows.sums = (const int32_t*)f->acc;
  rows.sums_row = width;
  rows.rows = f->row_count;
  rows.blocks = f->block_count;
  rows.channels = channels;
  rows.constant = constant;
  rows.scale = f->scale;
  rows.r = f->r;
  rows.y = f->y;
  rows.r_row = f->r_row;
  rows.y_row = f->y_row;
  rows.rule = xrt_q8_rule_of(f->clip, f->lo, f->hi, f->y_dtype, f->y_zero, f->r_dtype, f->r_zero,
                             f->r_scale);
  rows.small = xrt_q8_is_small(&rows.rule, f->scale, channels);
  xrt_q8_finish(&rows);
}

/* Pixels at once, so that a factor is loaded once for all of them. */
INLINE void depthwise_float(const xrt_tile_depthwise* d, int32_t i, int32_t c, const int pixels) {
  const __mmask16 mask = mask_of(d->channels - c);
  __m512 acc[8];
  for (int p = 0; p < pixels; ++p) acc[p] = _mm512_setzero_ps();
  for (int32_t t = 0; t < d->tap_count; ++t) {
    const float* w = (const float*)d->w + (int64_t)d->w_index[t] * d->channels + c;
    const uint8_t* x = d->taps[t] + i * d->x_step + 4 * (int64_t)c;
    const __m512 f = _mm512_maskz_loadu_ps(mask, w);
    for (int p = 0; p < pixels; ++p)
      acc[p] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x + p * d->x_step), f, acc[p]);
  }
  for (int p = 0; p < pixels; ++p)
    store_f32(&d->finish, acc[p], c, mask, d->finish.r ? d->finish.r + (i + p) * d->r_step : NULL,
              d->finish.y + (i + p) * d->y_step);
}

INLINE void depthwise_int8(const xrt_tile_depthwise* d, int32_t i, int32_t c, const int pixels) {
  const __mmask16 mask = mask_of(d->channels - c);
  const __m512i zero = _mm512_set1_epi32(d->finish.x_zero);
  __m512i acc[8];
  for (int p = 0; p < pixels; ++p) acc[p] = _mm512_setzero_si512();
  for (int32_t t = 0; t < d->tap_count; ++t) {
    const int8_t* w = (const int8_t*)d->w + (int64_t)d->w_index[t] * d->channels + c;
    const uint8_t* x = d->taps[t] + i * d->x_step + c;
    const __m512i f = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, w));
    for (int p = 0; p < pixels; ++p) {
      const __m128i bytes = _mm_maskz_loadu_epi8(mask, x + p * d->x_step);
      const __m512i wide = d->x_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
      /* Both fit into 16 bits, the other half of each pair is nothing: a product of pairs is one.
       */
      const __m512i v = _mm512_and_si512(_mm512_sub_epi32(wide, zero), _mm512_set1_epi32(0xffff));
      acc[p] = _mm512_add_epi32(acc[p], _mm512_madd_epi16(v, f));
    }
  }
  for (int p = 0; p < pixels; ++p)
    store_q8(&d->finish, acc[p], c, mask, d->finish.r ? d->finish.r + (i + p) * d->r_step : NULL,
             d->finish.y + (i + p) * d->y_step);
}

#define DEPTHWISE(NAME, BODY)                                   \
  static void NAME(const xrt_tile_depthwise* d) {               \
    for (int32_t c = 0; c < d->channels; c += XRT_TILE_BLOCK) { \
      int32_t i = 0;                                            \
      for (; i + 8 <= d->count; i += 8) BODY(d, i, c, 8);       \
      for (; i + 3 <= d->count; i += 3) BODY(d, i, c, 3);       \
      for (; i < d->count; ++i) BODY(d, i, c, 1);               \
    }                                                           \
  }
DEPTHWISE(depthwise_f32, depthwise_float)
DEPTHWISE(depthwise_q8, depthwise_int8)

static void max_f32(float* y, const float* x, int32_t count) {
  for (int32_t c = 0; c < count; c += XRT_TILE_BLOCK) {
    const __mmask16 mask = mask_of(count - c);
    const __m512 a = _mm512_maskz_loadu_ps(mask, x + c), b = _mm512_maskz_loadu_ps(mask, y + c);
    _mm512_mask_storeu_ps(y + c, mask, _mm512_max_ps(a, b));
  }
}

static void add_f32(float* y, const float* x, int32_t count) {
  for (int32_t c = 0; c < count; c += XRT_TILE_BLOCK) {
    const __mmask16 mask = mask_of(count - c);
    const __m512 a = _mm512_maskz_loadu_ps(mask, x + c), b = _mm512_maskz_loadu_ps(mask, y + c);
    _mm512_mask_storeu_ps(y + c, mask, _mm512_add_ps(a, b));
  }
}

static void max_u8(uint8_t* y, const uint8_t* x, int32_t count, uint8_t flip) {
  const __m512i other = _mm512_set1_epi8((char)flip);
  for (int32_t c = 0; c < count; c += 64) {
    const __mmask64 mask = count - c >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (count - c)) - 1;
    const __m512i a = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, x + c), other);
    const __m512i b = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, y + c), other);
    _mm512_mask_storeu_epi8(y + c, mask, _mm512_xor_si512(_mm512_max_epu8(a, b), other));
  }
}

const xrt_tile_isa xrt_x86_avx512 = {{0, 14, 12, 8, 6},
                                     XRT_TILE_BLOCKS,
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
                                     xrt_x86_sum_f32_avx512,
                                     xrt_x86_sum_f16_avx512,
                                     xrt_x86_depthwise_row_avx512,
                                     xrt_x86_pool_avx512,
                                     xrt_x86_pool_u8_avx512,
                                     xrt_x86_depthwise_q8_avx512};
