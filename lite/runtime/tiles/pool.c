/* SPDX-License-Identifier: Apache-2.0
 * Maximum and mean over windows, all channels of a tap at once. */
#include <math.h>

#include "tiles.h"

typedef struct pool_job {
  const xrt_k_pool* p;
  const xrt_tile_isa* isa;
  const uint8_t* x;
  uint8_t* y;
  int32_t element;
} pool_job;

#define MAX_TAPS 64

/* Float32: all taps of some channels at once. */
static void pool_float(const pool_job* j, const float* const* taps, int32_t inside, float divisor,
                       float* y) {
  const xrt_k_pool* p = j->p;
  if (inside == 0) {
    for (int32_t c = 0; c < p->c; ++c) y[c] = p->kind == XRT_POOL_MAX ? -INFINITY : 0.0f;
    return;
  }
  j->isa->pool_f32(y, taps, inside, p->c, p->kind == XRT_POOL_MAX ? 0.0f : divisor);
}

static void pool_bytes(const pool_job* j, const uint8_t* const* taps, int32_t inside, uint8_t* y) {
  const xrt_k_pool* p = j->p;
  const uint8_t flip = p->dtype == XRT_LITE_I8 ? 0x80 : 0;
  if (inside == 0)
    memset(y, flip, (size_t)p->c);
  else
    j->isa->pool_u8(y, taps, inside, p->c, flip);
}

/* Whether all taps of a pixel may be handed over at once. */
static int together(const pool_job* j) {
  const xrt_k_pool* p = j->p;
  return p->kh * p->kw <= MAX_TAPS &&
         (p->dtype == XRT_LITE_F32 ? j->isa->pool_f32 != NULL : j->isa->pool_u8 != NULL);
}

static void pool_pixel(const pool_job* j, int32_t row, int32_t ox) {
  const xrt_k_pool* p = j->p;
  const int32_t n = row / p->oh, oy = row % p->oh;
  uint8_t* y = j->y + ((int64_t)row * p->ow + ox) * p->y_pitch * j->element;
  float* yf = (float*)(void*)y;
  const int is_float = p->dtype == XRT_LITE_F32;
  int32_t inside = 0, padded = 0;
  const void* taps[MAX_TAPS];
  const int at_once = together(j);
  for (int32_t ky = 0; ky < p->kh; ++ky) {
    const int32_t iy = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
    if (iy >= p->ih + p->pad_bottom) continue;
    for (int32_t kx = 0; kx < p->kw; ++kx) {
      const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
      if (ix >= p->iw + p->pad_right) continue;
      ++padded;
      if (iy < 0 || iy >= p->ih || ix < 0 || ix >= p->iw) continue;
      const uint8_t* x = j->x + (((int64_t)n * p->ih + iy) * p->iw + ix) * p->x_pitch * j->element;
      if (at_once)
        taps[inside++] = x;
      else if (inside++ == 0)
        memcpy(y, x, (size_t)p->c * (size_t)j->element);
      else if (!is_float)
        j->isa->max_u8(y, x, p->c, p->dtype == XRT_LITE_I8 ? 0x80 : 0);
      else if (p->kind == XRT_POOL_MAX)
        j->isa->max_f32(yf, (const float*)(const void*)x, p->c);
      else
        j->isa->add_f32(yf, (const float*)(const void*)x, p->c);
    }
  }
  if (at_once && !is_float) {
    pool_bytes(j, (const uint8_t* const*)taps, inside, y);
  } else if (at_once) {
    pool_float(j, (const float* const*)taps, inside,
               (float)(p->count_include_pad ? padded : inside), yf);
  } else if (!is_float) {
    if (inside == 0) memset(y, p->dtype == XRT_LITE_I8 ? 128 : 0, (size_t)p->c);
  } else if (inside == 0) {
    for (int32_t c = 0; c < p->c; ++c) yf[c] = p->kind == XRT_POOL_MAX ? -INFINITY : 0.0f;
  } else if (p->kind == XRT_POOL_MEAN) {
    const float count = (float)(p->count_include_pad ? padded : inside);
    for (int32_t c = 0; c < p->c; ++c) yf[c] /= count;
  }
}

static void pool_row(void* argument, int32_t row) {
  const pool_job* j = (const pool_job*)argument;
  const xrt_k_pool* p = j->p;
  const int32_t n = row / p->oh, y = row % p->oh * p->stride_h - p->pad_top;
  const int32_t last_x = p->iw - (p->kw - 1) * p->dilation_w;
  const int64_t pixel = (int64_t)p->x_pitch * j->element;
  const int inside = together(j) && y >= 0 && y + (p->kh - 1) * p->dilation_h < p->ih;
  int64_t offsets[MAX_TAPS]; /* of windows inside of the image */
  if (inside)
    for (int32_t ky = 0; ky < p->kh; ++ky)
      for (int32_t kx = 0; kx < p->kw; ++kx)
        offsets[ky * p->kw + kx] =
            ((int64_t)ky * p->dilation_h * p->iw + kx * p->dilation_w) * pixel;
  for (int32_t ox = 0; ox < p->ow; ++ox) {
    const int32_t x = ox * p->stride_w - p->pad_left, taps = p->kh * p->kw;
    if (!inside || x < 0 || x >= last_x) {
      pool_pixel(j, row, ox);
      continue;
    }
    const uint8_t* first = j->x + (((int64_t)n * p->ih + y) * p->iw + x) * pixel;
    uint8_t* to = j->y + ((int64_t)row * p->ow + ox) * p->y_pitch * j->element;
    const void* places[MAX_TAPS];
    for (int32_t t = 0; t < taps; ++t) places[t] = first + offsets[t];
    if (p->dtype == XRT_LITE_F32)
      pool_float(j, (const float* const*)places, taps, (float)taps, (float*)(void*)to);
    else
      pool_bytes(j, (const uint8_t* const*)places, taps, to);
  }
}

xrt_lite_status xrt_tile_pool(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  const xrt_k_pool* p = (const xrt_k_pool*)call->params;
  pool_job j = {p, isa, (const uint8_t*)call->operands[0], (uint8_t*)call->operands[1],
                p->dtype == XRT_LITE_F32 ? 4 : 1};
  xrt_parallel(call, p->n * p->oh, pool_row, &j);
  return XRT_LITE_OK;
}
