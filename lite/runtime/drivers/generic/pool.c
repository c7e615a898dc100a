/* SPDX-License-Identifier: Apache-2.0
 * Maximum and mean over windows, channels innermost. */
#include <math.h>

#include "generic.h"

typedef struct pool_job {
  const xrt_k_pool* p;
  const void* x;
  void* y;
} pool_job;

static void max_q8(const xrt_k_pool* p, const uint8_t* x, uint8_t* y, int first) {
  const uint8_t flip = p->dtype == XRT_LITE_I8 ? 128 : 0; /* int8 compares as uint8 + 128 */
  for (int32_t c = 0; c < p->c; ++c)
    if (first || (uint8_t)(x[c] ^ flip) > (uint8_t)(y[c] ^ flip)) y[c] = x[c];
}

static void pool_row(void* argument, int32_t row) {
  const pool_job* j = (const pool_job*)argument;
  const xrt_k_pool* p = j->p;
  const int32_t n = row / p->oh, oy = row % p->oh;
  for (int32_t ox = 0; ox < p->ow; ++ox) {
    const int64_t y_at = ((int64_t)row * p->ow + ox) * p->y_pitch;
    float* y = (float*)j->y + (p->dtype == XRT_LITE_F32 ? y_at : 0);
    uint8_t* y8 = (uint8_t*)j->y + (p->dtype == XRT_LITE_F32 ? 0 : y_at);
    int32_t inside = 0, padded = 0;
    for (int32_t ky = 0; ky < p->kh; ++ky) {
      const int32_t iy = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
      if (iy >= p->ih + p->pad_bottom) continue;
      for (int32_t kx = 0; kx < p->kw; ++kx) {
        const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
        if (ix >= p->iw + p->pad_right) continue;
        ++padded;
        if (iy < 0 || iy >= p->ih || ix < 0 || ix >= p->iw) continue;
        const int64_t at = (((int64_t)n * p->ih + iy) * p->iw + ix) * p->x_pitch;
        if (p->dtype != XRT_LITE_F32) {
          max_q8(p, (const uint8_t*)j->x + at, y8, inside == 0);
        } else {
          const float* x = (const float*)j->x + at;
          if (inside == 0)
            for (int32_t c = 0; c < p->c; ++c) y[c] = x[c];
          else if (p->kind == XRT_POOL_MAX)
            for (int32_t c = 0; c < p->c; ++c) y[c] = x[c] > y[c] ? x[c] : y[c];
          else
            for (int32_t c = 0; c < p->c; ++c) y[c] += x[c];
        }
        ++inside;
      }
    }
    if (p->dtype != XRT_LITE_F32) {
      if (inside == 0) memset(y8, p->dtype == XRT_LITE_I8 ? 128 : 0, (size_t)p->c);
    } else if (inside == 0) {
      for (int32_t c = 0; c < p->c; ++c) y[c] = p->kind == XRT_POOL_MAX ? -INFINITY : 0.0f;
    } else if (p->kind == XRT_POOL_MEAN) {
      const float count = (float)(p->count_include_pad ? padded : inside);
      for (int32_t c = 0; c < p->c; ++c) y[c] /= count;
    }
  }
}

xrt_lite_status xrt_generic_pool(const xrt_kernel_call* call) {
  pool_job j = {(const xrt_k_pool*)call->params, call->operands[0], call->operands[1]};
  xrt_parallel(call, j.p->n * j.p->oh, pool_row, &j);
  return XRT_LITE_OK;
}
