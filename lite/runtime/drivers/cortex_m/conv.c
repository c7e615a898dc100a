/* SPDX-License-Identifier: Apache-2.0
 * Convolution: of int8 as rows of widened windows, of float tap by tap. */
#include "cortex_m.h"

#define HALF_ROWS 32 /* of factors in half precision that are converted at a time */

typedef struct conv_job {
  const xrt_k_conv* p;
  const uint8_t* x; /* the group's first channel */
  int32_t icg;
} conv_job;

/* Where an output pixel's window begins: its image's first pixel, and the place in the image. */
typedef struct window {
  int64_t image;
  int32_t y, x;
} window;

static window window_of(const xrt_k_conv* p, int32_t pixel) {
  const int32_t ox = pixel % p->ow, row = pixel / p->ow;
  const int32_t oy = row % p->oh, n = row / p->oh;
  const window at = {(int64_t)n * p->ih * p->iw, oy * p->stride_h - p->pad_top,
                     ox * p->stride_w - p->pad_left};
  return at;
}

/* The input pixel of a tap; -1 outside of the image. */
static int64_t pixel_of(const xrt_k_conv* p, const window* at, int32_t ky, int32_t kx) {
  const int32_t iy = at->y + ky * p->dilation_h, ix = at->x + kx * p->dilation_w;
  if (iy < 0 || iy >= p->ih || ix < 0 || ix >= p->iw) return -1;
  return at->image + (int64_t)iy * p->iw + ix;
}

static void fetch_window(const void* job, int32_t pixel, int32_t k, int32_t count, int16_t* to) {
  const conv_job* j = (const conv_job*)job;
  const xrt_k_conv* p = j->p;
  const window at = window_of(p, pixel);
  const int32_t tap = k / j->icg;
  int32_t c = k % j->icg, ky = tap / p->kw, kx = tap % p->kw;
  for (int32_t i = 0; i < count; c = 0) {
    const int32_t run = j->icg - c < count - i ? j->icg - c : count - i;
    const int64_t from = pixel_of(p, &at, ky, kx);
    if (from >= 0)
      xrt_cm_widen(j->x + from * p->x_pitch + c, run, p->x_dtype, p->x_zero, i, to);
    else
      for (int32_t z = i; z < i + run; ++z) to[xrt_cm_place(z)] = 0;
    i += run;
    if (++kx == p->kw) {
      kx = 0;
      ++ky;
    }
  }
}

xrt_lite_status xrt_cortex_m_conv_q8(const xrt_kernel_call* call) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  if (p->pack_n != 1 || p->pack_k != 4) return XRT_LITE_UNSUPPORTED;
  const int32_t icg = p->ic / p->groups, ocg = p->oc / p->groups;
  const int32_t k = p->kh * p->kw * icg;
  int next = 3;
  const int32_t* bias = (p->flags & XRT_HAS_BIAS) ? (const int32_t*)call->operands[next++] : NULL;
  const uint8_t* r = (p->flags & XRT_HAS_RESIDUAL) ? (const uint8_t*)call->operands[next++] : NULL;
  for (int32_t g = 0; g < p->groups; ++g) {
    const conv_job j = {p, (const uint8_t*)call->operands[0] + (int64_t)g * icg, icg};
    const int32_t c = g * ocg;
    const xrt_cm_rows m = {
        fetch_window,
        &j,
        p->n * p->oh * p->ow,
        k,
        ocg,
        (const int8_t*)call->operands[1] + (int64_t)c * ((k + 3) & ~3),
        {(const float*)call->operands[2] + c, bias ? bias + c : NULL, p->activation == XRT_ACT_CLIP,
         p->lo, p->hi, p->r_dtype, p->r_zero, p->y_dtype, p->y_zero, p->r_scale},
        r ? r + c : NULL,
        (uint8_t*)call->operands[next] + c,
        p->r_pitch,
        p->y_pitch};
    xrt_cm_multiply(&m);
  }
  return XRT_LITE_OK;
}

/* One or two pixels by four channels. */
static void sum_taps(const xrt_k_conv* p, const float* x, const window* windows, int32_t pixels,
                     const uint8_t* w, int32_t icg, float acc[2][XRT_CM_BLOCK]) {
  float converted[HALF_ROWS * XRT_CM_BLOCK];
  const int32_t half = p->weight_dtype == XRT_LITE_F16, most = half ? HALF_ROWS : icg;
  const int32_t row_bytes = XRT_CM_BLOCK * (half ? 2 : 4);
  int32_t ky = 0, kx = -1;
  for (int32_t tap = 0; tap < p->kh * p->kw; ++tap) {
    if (++kx == p->kw) {
      kx = 0;
      ++ky;
    }
    const float* row[2];
    int32_t inside[2] = {0, 0}, rows = 0;
    for (int32_t i = 0; i < pixels; ++i) {
      const int64_t at = pixel_of(p, &windows[i], ky, kx);
      if (at < 0) continue;
      row[rows] = x + at * p->x_pitch;
      inside[rows++] = i;
    }
    if (rows == 0) continue;
    for (int32_t c = 0; c < icg; c += most) {
      const int32_t count = icg - c < most ? icg - c : most;
      const float* f = xrt_cm_factors(w + ((int64_t)tap * icg + c) * row_bytes, p->weight_dtype,
                                      count, converted);
      const float* from[2] = {row[0] + c, rows == 2 ? row[1] + c : NULL};
      xrt_cm_mac_f32(rows == 2 ? acc : &acc[inside[0]], from, rows, 1, f, count);
    }
  }
}

xrt_lite_status xrt_cortex_m_conv_f32(const xrt_kernel_call* call) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  if (p->pack_n != XRT_CM_BLOCK || p->pack_k != 1) return XRT_LITE_UNSUPPORTED;
  const int32_t icg = p->ic / p->groups, ocg = p->oc / p->groups;
  const int32_t blocks = (ocg + XRT_CM_BLOCK - 1) / XRT_CM_BLOCK;
  const int64_t block_bytes =
      (int64_t)p->kh * p->kw * icg * XRT_CM_BLOCK * (p->weight_dtype == XRT_LITE_F16 ? 2 : 4);
  int next = 2;
  const void* bias = (p->flags & XRT_HAS_BIAS) ? call->operands[next++] : NULL;
  const float* r = (p->flags & XRT_HAS_RESIDUAL) ? (const float*)call->operands[next++] : NULL;
  float* y = (float*)call->operands[next];
  const xrt_cm_finish finish = {NULL, bias, p->activation == XRT_ACT_CLIP, p->lo, p->hi, 0, 0, 0,
                                0,    0};
  const int32_t pixels = p->n * p->oh * p->ow;
  for (int32_t pixel = 0; pixel < pixels; pixel += 2) {
    const int32_t count = pixels - pixel < 2 ? 1 : 2;
    const window windows[2] = {window_of(p, pixel), window_of(p, pixel + count - 1)};
    for (int32_t b = 0; b < blocks * p->groups; ++b) {
      const int32_t g = b / blocks, first = b % blocks * XRT_CM_BLOCK;
      float acc[2][XRT_CM_BLOCK] = {{0}};
      sum_taps(p, (const float*)call->operands[0] + (int64_t)g * icg, windows, count,
               (const uint8_t*)call->operands[1] + b * block_bytes, icg, acc);
      for (int32_t i = 0; i < count; ++i)
        for (int32_t c = first; c < ocg && c < first + XRT_CM_BLOCK; ++c)
          xrt_cm_store_f32(&finish, acc[i][c - first], g * ocg + c,
                           r ? r + (int64_t)(pixel + i) * p->r_pitch : NULL,
                           y + (int64_t)(pixel + i) * p->y_pitch);
    }
  }
  return XRT_LITE_OK;
}
