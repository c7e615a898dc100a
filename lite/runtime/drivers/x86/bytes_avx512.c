/* SPDX-License-Identifier: Apache-2.0
 * Depthwise windows of int8 and pools of bytes, with AVX-512 and VNNI.
 *
 * VNNI adds up four products of neighbouring bytes. Here the four are the taps of a column of the
 * window: 64 channels of up to four rows are interleaved once per column, and each column serves
 * all the windows it is in. Interleaving works within 128 bits, so that sums stand in another order
 * than channels; xrt_q8_pack() brings them back. */
#include "q8_rows.h"

#define XRT_INLINE static inline __attribute__((always_inline))
#define LANES 64 /* channels at once */
#define COLUMNS 3
#define ROWS 4

XRT_INLINE __mmask64 mask_of(int32_t channels) {
  return channels >= LANES ? ~(__mmask64)0 : ((__mmask64)1 << channels) - 1;
}

/* Four vectors of which each 128 bits hold four channels, four bytes each, of a, b, c, d: vector q
 * has the channels 4 q to 4 q + 3 of each sixteen. */
XRT_INLINE void interleave(__m512i a, __m512i b, __m512i c, __m512i d, __m512i out[4]) {
  const __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
  const __m512i ab_high = _mm512_unpackhi_epi8(a, b), cd_high = _mm512_unpackhi_epi8(c, d);
  out[0] = _mm512_unpacklo_epi16(ab, cd);
  out[1] = _mm512_unpackhi_epi16(ab, cd);
  out[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
  out[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
}

/* What 64 channels need, in the order of interleaved sums. */
typedef struct lanes {
  __m512i factors[COLUMNS][4];
  int32_t constant[4][16]; /* the bias, and what x's zero point takes */
  float scale[4][16];
  int32_t small; /* xrt_q8_is_small */
} lanes;

static void prepare(const xrt_tile_depthwise_image* d, const xrt_q8_rule* rule, int32_t zero,
                    int32_t c, lanes* l) {
  const xrt_k_conv* p = d->p;
  const int32_t channels = p->oc - c < LANES ? p->oc - c : LANES;
  const __mmask64 mask = mask_of(channels);
  for (int32_t kx = 0; kx < COLUMNS; ++kx) {
    __m512i rows[ROWS];
    for (int32_t ky = 0; ky < ROWS; ++ky)
      rows[ky] = ky < p->kh ? _mm512_maskz_loadu_epi8(
                                  mask, (const int8_t*)d->w + (ky * COLUMNS + kx) * p->oc + c)
                            : _mm512_setzero_si512();
    interleave(rows[0], rows[1], rows[2], rows[3], l->factors[kx]);
  }
  const __m512i ones = _mm512_set1_epi8(1);
  for (int q = 0; q < 4; ++q) {
    __m512i sum = _mm512_setzero_si512();
    for (int32_t kx = 0; kx < COLUMNS; ++kx)
      sum = _mm512_dpbusd_epi32(sum, ones, l->factors[kx][q]);
    int32_t sums[16];
    _mm512_storeu_si512(sums, sum);
    for (int32_t i = 0; i < 16; ++i) {
      const int32_t channel = i / 4 * 16 + q * 4 + i % 4;
      const int exists = channel < channels;
      const uint32_t bias = exists && d->bias ? (uint32_t)d->bias[c + channel] : 0u;
      l->constant[q][i] = (int32_t)(bias - (uint32_t)zero * (uint32_t)sums[i]);
      l->scale[q][i] = exists ? d->scale[c + channel] : 0.0f;
    }
  }
  l->small = xrt_q8_is_small(rule, d->scale + c, channels);
}

/* A column of the image, `ROWS` rows of it. */
typedef struct column_source {
  const uint8_t* rows[ROWS]; /* at the block's first channel */
  int64_t steps[ROWS];       /* from a column to the next; 0 where the row is outside */
  __m512i flip, outside;
  __mmask64 mask;
  int32_t width;
} column_source;

XRT_INLINE void load_column(const column_source* s, int32_t x, __m512i column[4]) {
  if (x < 0 || x >= s->width) {
    for (int q = 0; q < 4; ++q) column[q] = s->outside;
    return;
  }
  __m512i v[ROWS];
  for (int k = 0; k < ROWS; ++k)
    v[k] =
        _mm512_xor_si512(_mm512_maskz_loadu_epi8(s->mask, s->rows[k] + x * s->steps[k]), s->flip);
  interleave(v[0], v[1], v[2], v[3], column);
}

XRT_INLINE void depthwise_row(const xrt_tile_depthwise_image* d, const column_source* source,
                              const xrt_q8_rule* rule, const lanes* l, uint8_t* y, const int stride,
                              const int bounded) {
  const xrt_k_conv* p = d->p;
  __m512i columns[COLUMNS][4];
  int32_t x = -p->pad_left;
  for (int k = 0; k < COLUMNS - stride; ++k) load_column(source, x++, columns[k + stride]);
  for (int32_t ox = 0; ox < p->ow; ++ox, y += p->y_pitch) {
    for (int k = 0; k + stride < COLUMNS; ++k)
      for (int q = 0; q < 4; ++q) columns[k][q] = columns[k + stride][q];
    for (int k = COLUMNS - stride; k < COLUMNS; ++k) load_column(source, x++, columns[k]);
    __m512i result[4];
    for (int q = 0; q < 4; ++q) {
      __m512i sum = _mm512_loadu_si512(l->constant[q]);
      for (int k = 0; k < COLUMNS; ++k)
        sum = _mm512_dpbusd_epi32(sum, columns[k][q], l->factors[k][q]);
      const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(l->scale[q]));
      result[q] = xrt_q8_round(rule, v, bounded);
    }
    _mm512_mask_storeu_epi8(y, source->mask, xrt_q8_pack(rule, result));
  }
}

void xrt_x86_depthwise_q8_avx512(const xrt_tile_depthwise_image* d, int32_t begin, int32_t end) {
  const xrt_k_conv* p = d->p;
  uint8_t outside[LANES];
  memset(outside, (uint8_t)p->x_zero, sizeof(outside));
  const int32_t flip = p->x_dtype == XRT_LITE_I8 ? 0x80 : 0;
  const xrt_q8_rule rule = xrt_q8_rule_of(p->activation == XRT_ACT_CLIP, p->lo, p->hi, p->y_dtype,
                                          p->y_zero, p->y_dtype, 0, 0.0f);
  column_source source;
  source.flip = _mm512_set1_epi8((char)flip);
  source.outside = _mm512_set1_epi8((char)(p->x_zero ^ flip));
  source.width = p->iw;
  for (int32_t c = 0; c < p->oc; c += LANES) {
    lanes l;
    prepare(d, &rule, p->x_zero + (flip ? 128 : 0), c, &l);
    source.mask = mask_of(p->oc - c);
    const int bounded = rule.bounded || !l.small;
    for (int32_t row = begin; row < end; ++row) {
      const int32_t n = row / p->oh, top = row % p->oh * p->stride_h - p->pad_top;
      for (int32_t ky = 0; ky < ROWS; ++ky) {
        const int32_t iy = top + ky;
        const int inside = ky < p->kh && iy >= 0 && iy < p->ih;
        source.steps[ky] = inside ? p->x_pitch : 0;
        source.rows[ky] =
            inside ? d->x + ((int64_t)n * p->ih + iy) * p->iw * p->x_pitch + c : outside;
      }
      uint8_t* y = d->y + (int64_t)row * p->ow * p->y_pitch + c;
      if (p->stride_w == 1 && bounded)
        depthwise_row(d, &source, &rule, &l, y, 1, 1);
      else if (p->stride_w == 1)
        depthwise_row(d, &source, &rule, &l, y, 1, 0);
      else if (bounded)
        depthwise_row(d, &source, &rule, &l, y, 2, 1);
      else
        depthwise_row(d, &source, &rule, &l, y, 2, 0);
    }
  }
}

void xrt_x86_pool_u8_avx512(uint8_t* y, const uint8_t* const* taps, int32_t tap_count,
                            int32_t channels, uint8_t flip) {
  const __m512i other = _mm512_set1_epi8((char)flip);
  for (int32_t c = 0; c < channels; c += LANES) {
    const __mmask64 mask = mask_of(channels - c);
    __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, taps[0] + c), other);
    for (int32_t t = 1; t < tap_count; ++t)
      v = _mm512_max_epu8(v, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, taps[t] + c), other));
    _mm512_mask_storeu_epi8(y + c, mask, _mm512_xor_si512(v, other));
  }
}
