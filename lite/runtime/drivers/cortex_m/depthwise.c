/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution: four channels of a pixel at a time. */
#include "cortex_m.h"

#define WIDTH 4

/* acc += x * w of four channels. */
static void mac_q8(int32_t acc[WIDTH], const uint8_t* x, int32_t dtype, int32_t zero,
                   const int8_t* w, int32_t count) {
#if defined(XRT_CM_DSP)
  if (count == WIDTH) {
    uint32_t v, f;
    memcpy(&v, x, 4);
    memcpy(&f, w, 4);
    const int16x2_t zeros = (int16x2_t)((uint32_t)(uint16_t)zero * 0x10001u);
    const uint32_t turned = v >> 8 | v << 24;
    const int16x2_t even =
        __ssub16(dtype == XRT_LITE_U8 ? (int16x2_t)__uxtb16(v) : __sxtb16(v), zeros);
    const int16x2_t odd =
        __ssub16(dtype == XRT_LITE_U8 ? (int16x2_t)__uxtb16(turned) : __sxtb16(turned), zeros);
    const int16x2_t f_even = __sxtb16(f), f_odd = __sxtb16(f >> 8 | f << 24);
    acc[0] = __smlabb(even, f_even, acc[0]);
    acc[1] = __smlabb(odd, f_odd, acc[1]);
    acc[2] = __smlatt(even, f_even, acc[2]);
    acc[3] = __smlatt(odd, f_odd, acc[3]);
    return;
  }
#endif
  for (int32_t c = 0; c < count; ++c)
    acc[c] = (int32_t)((uint32_t)acc[c] + (uint32_t)((xrt_load_q8(x, c, dtype) - zero) * w[c]));
}

typedef struct range {
  int32_t begin, end;
} range;

/* Which taps of a window that begins at `first` lie inside [0, size). */
static range inside(int32_t first, int32_t taps, int32_t dilation, int32_t size) {
  range r = {0, taps};
  if (first < 0) r.begin = (-first + dilation - 1) / dilation;
  const int32_t left = (size - first + dilation - 1) / dilation;
  if (left < taps) r.end = left;
  return r;
}

/* Calls visit for every tap that an output pixel has. */
typedef struct depthwise {
  const xrt_k_conv* p;
  const uint8_t* x;
  const uint8_t* w;
  int32_t c, count;
  int32_t q8;
  int32_t acc[WIDTH];
  float sums[WIDTH];
} depthwise;

static void sum(depthwise* d, int32_t n, int32_t oy, int32_t ox) {
  const xrt_k_conv* p = d->p;
  const int32_t top = oy * p->stride_h - p->pad_top, left = ox * p->stride_w - p->pad_left;
  const range rows = inside(top, p->kh, p->dilation_h, p->ih);
  const range columns = inside(left, p->kw, p->dilation_w, p->iw);
  for (int32_t ky = rows.begin; ky < rows.end; ++ky) {
    for (int32_t kx = columns.begin; kx < columns.end; ++kx) {
      const int64_t x =
          (((int64_t)n * p->ih + top + ky * p->dilation_h) * p->iw + left + kx * p->dilation_w) *
              p->x_pitch +
          d->c;
      const int64_t w = ((int64_t)ky * p->kw + kx) * p->oc + d->c;
      if (d->q8) {
        mac_q8(d->acc, d->x + x, p->x_dtype, p->x_zero, (const int8_t*)d->w + w, d->count);
        continue;
      }
      const float* from = (const float*)(const void*)d->x + x;
      for (int32_t c = 0; c < d->count; ++c)
        d->sums[c] +=
            from[c] * (p->weight_dtype == XRT_LITE_F16
                           ? xrt_half_to_float(((const uint16_t*)(const void*)d->w)[w + c])
                           : ((const float*)(const void*)d->w)[w + c]);
    }
  }
}

static xrt_lite_status convolve(const xrt_kernel_call* call, int32_t q8) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  int next = 2;
  const float* scale = q8 ? (const float*)call->operands[next++] : NULL;
  const void* bias = (p->flags & XRT_HAS_BIAS) ? call->operands[next++] : NULL;
  const void* r = (p->flags & XRT_HAS_RESIDUAL) ? call->operands[next++] : NULL;
  const xrt_cm_finish f = {scale,     bias,       p->activation == XRT_ACT_CLIP,
                           p->lo,     p->hi,      p->r_dtype,
                           p->r_zero, p->y_dtype, p->y_zero,
                           p->r_scale};
  for (int32_t pixel = 0; pixel < p->n * p->oh * p->ow; ++pixel) {
    const int64_t y_at = (int64_t)pixel * p->y_pitch, r_at = (int64_t)pixel * p->r_pitch;
    for (int32_t c = 0; c < p->oc; c += WIDTH) {
      depthwise d = {p,
                     (const uint8_t*)call->operands[0],
                     (const uint8_t*)call->operands[1],
                     c,
                     p->oc - c < WIDTH ? p->oc - c : WIDTH,
                     q8,
                     {0},
                     {0}};
      sum(&d, pixel / p->ow / p->oh, pixel / p->ow % p->oh, pixel % p->ow);
      for (int32_t i = 0; i < d.count; ++i) {
        if (q8)
          xrt_cm_store_q8(&f, d.acc[i], c + i, r ? (const uint8_t*)r + r_at : NULL,
                          (uint8_t*)call->operands[next] + y_at);
        else
          xrt_cm_store_f32(&f, d.sums[i], c + i, r ? (const float*)r + r_at : NULL,
                           (float*)call->operands[next] + y_at);
      }
    }
  }
  return XRT_LITE_OK;
}

xrt_lite_status xrt_cortex_m_dwconv_f32(const xrt_kernel_call* call) { return convolve(call, 0); }
xrt_lite_status xrt_cortex_m_dwconv_q8(const xrt_kernel_call* call) { return convolve(call, 1); }
