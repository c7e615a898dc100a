/* SPDX-License-Identifier: Apache-2.0
 * Depthwise windows of 3 x 3 and 5 x 5 and pools, float32 with AVX-512. */
#include "finish_avx512.h"

/* Pixels [first, first + count) of a row, `group` at most, sixteen channels from c on: each column
 * of the image is loaded once and goes into all pixels whose windows have it. `whole`: no window
 * reaches over the sides of the image, and count is group. */
XRT_INLINE void pixels(const xrt_tile_depthwise_row* d, int32_t first, int32_t count, int32_t c,
                       const int size, const int stride, const int group, const int whole) {
  const __mmask16 mask = xrt_mask_of(d->channels - c);
  const int columns = (group - 1) * stride + size;
  const int32_t at = first * stride + d->x_first;
  const int32_t begin = at < 0 ? -at : 0, end = d->iw - at;
  __m512 acc[8];
  for (int p = 0; p < group; ++p) acc[p] = _mm512_setzero_ps();
  for (int ky = 0; ky < size; ++ky) {
    if (d->rows[ky] == NULL) continue;
    const uint8_t* x = d->rows[ky] + 4 * (int64_t)c;
    int64_t place = at * d->x_step;
    const float* w = d->w + (int64_t)ky * size * d->channels + c;
    __m512 factor[5];
    for (int kx = 0; kx < size; ++kx)
      factor[kx] = _mm512_maskz_loadu_ps(mask, w + (int64_t)kx * d->channels);
#pragma GCC unroll 24
    for (int q = 0; q < columns; ++q, place += d->x_step) {
      if (!whole && (q < begin || q >= end)) continue;
      const __m512 v = _mm512_maskz_loadu_ps(mask, x + place);
#pragma GCC unroll 8
      for (int kx = 0; kx < size; ++kx)
        if (q >= kx && (q - kx) % stride == 0 && (q - kx) / stride < group)
          acc[(q - kx) / stride] = _mm512_fmadd_ps(v, factor[kx], acc[(q - kx) / stride]);
    }
  }
  const xrt_finish_block to = xrt_finish_of(&d->finish, c);
  const uint8_t* r = d->finish.r;
  if (r) r += first * d->finish.r_row + 4 * (int64_t)c;
  uint8_t* y = d->finish.y + first * d->finish.y_row + 4 * (int64_t)c;
  for (int p = 0; p < group; ++p) {
    if (!whole && p >= count) break;
    xrt_finish_store(&to, acc[p], r ? r + p * d->finish.r_row : NULL, y + p * d->finish.y_row);
  }
}

/* All channels of some pixels, so that memory is read in its order. */
XRT_INLINE void row(const xrt_tile_depthwise_row* d, const int size, const int stride) {
  for (int32_t first = 0; first < d->count;) {
    const int32_t left = d->count - first, group = left > 4 ? 8 : 4;
    const int32_t count = left < group ? left : group;
    const int32_t at = first * stride + d->x_first;
    const int whole = count == group && at >= 0 && at + (group - 1) * stride + size <= d->iw;
    for (int32_t c = 0; c < d->channels; c += XRT_TILE_BLOCK) {
      if (group == 8 && whole)
        pixels(d, first, count, c, size, stride, 8, 1);
      else if (group == 8)
        pixels(d, first, count, c, size, stride, 8, 0);
      else
        pixels(d, first, count, c, size, stride, 4, 0);
    }
    first += count;
  }
}

void xrt_x86_depthwise_row_avx512(const xrt_tile_depthwise_row* d) {
  if (d->size == 3 && d->stride == 1)
    row(d, 3, 1);
  else if (d->size == 3)
    row(d, 3, 2);
  else if (d->stride == 1)
    row(d, 5, 1);
  else
    row(d, 5, 2);
}

void xrt_x86_pool_avx512(float* y, const float* const* taps, int32_t tap_count, int32_t channels,
                         float divisor) {
  for (int32_t c = 0; c < channels; c += XRT_TILE_BLOCK) {
    const __mmask16 mask = xrt_mask_of(channels - c);
    __m512 v = _mm512_maskz_loadu_ps(mask, taps[0] + c);
    if (divisor == 0) {
      for (int32_t t = 1; t < tap_count; ++t)
        v = _mm512_max_ps(_mm512_maskz_loadu_ps(mask, taps[t] + c), v);
    } else {
      for (int32_t t = 1; t < tap_count; ++t)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, taps[t] + c));
      v = _mm512_div_ps(v, _mm512_set1_ps(divisor));
    }
    _mm512_mask_storeu_ps(y + c, mask, v);
  }
}
