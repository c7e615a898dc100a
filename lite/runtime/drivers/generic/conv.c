/* SPDX-License-Identifier: Apache-2.0
 * Convolution: one task a row of the image, four pixels by eight channels at a time. */
#include "generic.h"

#define P XRT_GENERIC_PACK
#define T 4
#define CHUNK 64

typedef struct conv_job {
  const xrt_k_conv* p;
  const void* x;
  const void* w;
  const float* scale;
  const void* bias;
  const void* r;
  void* y;
  int q8;
} conv_job;

static conv_job make_job(const xrt_kernel_call* call, int q8) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  conv_job j = {p, call->operands[0], call->operands[1], NULL, NULL, NULL, NULL, q8};
  int next = 2;
  if (q8) j.scale = (const float*)call->operands[next++];
  if (p->flags & XRT_HAS_BIAS) j.bias = call->operands[next++];
  if (p->flags & XRT_HAS_RESIDUAL) j.r = call->operands[next++];
  j.y = call->operands[next];
  return j;
}

/* Channels [c, c + count) of the pixel `at` (counted over the whole output). */
static void finish_f32(const conv_job* j, const float* acc, int64_t at, int32_t c, int32_t count) {
  const xrt_k_conv* p = j->p;
  float* y = (float*)j->y + at * p->y_pitch + c;
  const float* bias = (const float*)j->bias;
  const float* r = j->r ? (const float*)j->r + at * p->r_pitch + c : NULL;
  for (int32_t i = 0; i < count; ++i) {
    float v = acc[i];
    if (bias) v += bias[c + i];
    if (r) v += r[i];
    y[i] = p->activation == XRT_ACT_CLIP ? xrt_clip(v, p->lo, p->hi) : v;
  }
}

static void finish_q8(const conv_job* j, const int32_t* acc, int64_t at, int32_t c, int32_t count) {
  const xrt_k_conv* p = j->p;
  uint8_t* y = (uint8_t*)j->y + at * p->y_pitch + c;
  const int32_t* bias = (const int32_t*)j->bias;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t sum = (int32_t)((uint32_t)acc[i] + (uint32_t)(bias ? bias[c + i] : 0));
    float v = (float)sum * j->scale[c + i];
    if (j->r) {
      const int32_t r = xrt_load_q8(j->r, at * p->r_pitch + c + i, p->r_dtype) - p->r_zero;
      v = v + (float)r * p->r_scale;
    }
    if (p->activation == XRT_ACT_CLIP) v = xrt_clip(v, p->lo, p->hi);
    y[i] = (uint8_t)xrt_to_q8(v, p->y_zero, p->y_dtype);
  }
}

/* Sums over CHUNK terms by themselves: long sums lose less, and stay in registers. */
static void mac_f32(float acc[T][P], const float* const* x, int32_t pixels, int all, const float* w,
                    int32_t count) {
  for (int32_t k = 0; k < count; k += CHUNK) {
    const int32_t end = count - k < CHUNK ? count : k + CHUNK;
    float part[T][P] = {{0}};
    if (all) {
      for (int32_t i = k; i < end; ++i)
        for (int t = 0; t < T; ++t)
          for (int c = 0; c < P; ++c) part[t][c] += x[t][i] * w[i * P + c];
    } else {
      for (int32_t t = 0; t < pixels; ++t)
        for (int32_t i = k; i < end && x[t] != NULL; ++i)
          for (int c = 0; c < P; ++c) part[t][c] += x[t][i] * w[i * P + c];
    }
    for (int t = 0; t < T; ++t)
      for (int c = 0; c < P; ++c) acc[t][c] += part[t][c];
  }
}

static void mac_half(float acc[T][P], const float* const* x, int32_t pixels, const uint16_t* w,
                     int32_t count) {
  for (int32_t k = 0; k < count; ++k, w += P) {
    float wk[P];
    for (int i = 0; i < P; ++i) wk[i] = xrt_half_to_float(w[i]);
    for (int32_t t = 0; t < pixels; ++t) {
      if (x[t] == NULL) continue;
      for (int i = 0; i < P; ++i) acc[t][i] += x[t][k] * wk[i];
    }
  }
}

static void mac_q8(int32_t acc[P], const void* x, int32_t dtype, int32_t zero, const int8_t* w,
                   int32_t count) {
  const uint8_t* u = (const uint8_t*)x;
  const int32_t flip = dtype == XRT_LITE_I8 ? 128 : 0; /* int8 as uint8 - 128 */
  for (int32_t k = 0; k < count; ++k, w += P) {
    const int32_t v = (int32_t)(u[k] ^ (uint8_t)flip) - flip - zero;
    for (int i = 0; i < P; ++i) acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)(v * w[i]));
  }
}

static void conv_row(void* argument, int32_t row) {
  const conv_job* j = (const conv_job*)argument;
  const xrt_k_conv* p = j->p;
  const int32_t n = row / p->oh, oy = row % p->oh;
  const int32_t icg = p->ic / p->groups, ocg = p->oc / p->groups;
  const int64_t block = (int64_t)p->kh * p->kw * icg * P;
  const int32_t blocks = (ocg + P - 1) / P;
  const size_t weight = p->weight_dtype == XRT_LITE_F32   ? 4
                        : p->weight_dtype == XRT_LITE_F16 ? 2
                                                          : 1;
  const size_t element = j->q8 ? 1 : 4;
  for (int32_t g = 0; g < p->groups; ++g) {
    for (int32_t b = 0; b < blocks; ++b) {
      const uint8_t* w = (const uint8_t*)j->w + ((int64_t)g * blocks + b) * block * (int64_t)weight;
      const int32_t c = g * ocg + b * P;
      const int32_t channels = ocg - b * P < P ? ocg - b * P : P;
      for (int32_t ox = 0; ox < p->ow; ox += T) {
        const int32_t pixels = p->ow - ox < T ? p->ow - ox : T;
        float facc[T][P] = {{0}};
        int32_t qacc[T][P] = {{0}};
        for (int32_t ky = 0; ky < p->kh; ++ky) {
          const int32_t iy = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
          if (iy < 0 || iy >= p->ih) continue;
          for (int32_t kx = 0; kx < p->kw; ++kx) {
            const uint8_t* at[T] = {NULL};
            int32_t inside = 0;
            for (int32_t t = 0; t < pixels; ++t) {
              const int32_t ix = (ox + t) * p->stride_w - p->pad_left + kx * p->dilation_w;
              if (ix < 0 || ix >= p->iw) continue;
              ++inside;
              at[t] = (const uint8_t*)j->x +
                      (size_t)((((int64_t)n * p->ih + iy) * p->iw + ix) * p->x_pitch + g * icg) *
                          element;
            }
            const uint8_t* wk =
                w + ((size_t)ky * (size_t)p->kw + (size_t)kx) * (size_t)icg * P * weight;
            if (j->q8) {
              for (int32_t t = 0; t < pixels; ++t)
                if (at[t]) mac_q8(qacc[t], at[t], p->x_dtype, p->x_zero, (const int8_t*)wk, icg);
            } else {
              const float* xs[T];
              for (int t = 0; t < T; ++t) xs[t] = (const float*)(const void*)at[t];
              if (p->weight_dtype == XRT_LITE_F16)
                mac_half(facc, xs, pixels, (const uint16_t*)(const void*)wk, icg);
              else
                mac_f32(facc, xs, pixels, inside == T, (const float*)(const void*)wk, icg);
            }
          }
        }
        const int64_t first = (int64_t)row * p->ow + ox;
        for (int32_t t = 0; t < pixels; ++t) {
          if (j->q8)
            finish_q8(j, qacc[t], first + t, c, channels);
          else
            finish_f32(j, facc[t], first + t, c, channels);
        }
      }
    }
  }
}

static xrt_lite_status conv(const xrt_kernel_call* call, int q8) {
  conv_job j = make_job(call, q8);
  if (j.p->pack_n != P || j.p->pack_k != 1) return XRT_LITE_UNSUPPORTED;
  xrt_parallel(call, j.p->n * j.p->oh, conv_row, &j);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_conv_f32(const xrt_kernel_call* call) { return conv(call, 0); }
xrt_lite_status xrt_generic_conv_q8(const xrt_kernel_call* call) { return conv(call, 1); }

/* Depthwise: eight channels of a pixel at a time. */
static void depthwise_row(void* argument, int32_t row) {
  const conv_job* j = (const conv_job*)argument;
  const xrt_k_conv* p = j->p;
  const int32_t n = row / p->oh, oy = row % p->oh;
  for (int32_t ox = 0; ox < p->ow; ++ox) {
    for (int32_t c = 0; c < p->oc; c += P) {
      const int32_t count = p->oc - c < P ? p->oc - c : P;
      float facc[P] = {0};
      int32_t qacc[P] = {0};
      for (int32_t ky = 0; ky < p->kh; ++ky) {
        const int32_t iy = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
        if (iy < 0 || iy >= p->ih) continue;
        for (int32_t kx = 0; kx < p->kw; ++kx) {
          const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
          if (ix < 0 || ix >= p->iw) continue;
          const int64_t at = (((int64_t)n * p->ih + iy) * p->iw + ix) * p->x_pitch + c;
          const int64_t wat = ((int64_t)ky * p->kw + kx) * p->oc + c;
          if (j->q8) {
            const int8_t* w = (const int8_t*)j->w + wat;
            for (int32_t i = 0; i < count; ++i)
              qacc[i] += (xrt_load_q8(j->x, at + i, p->x_dtype) - p->x_zero) * w[i];
          } else if (p->weight_dtype == XRT_LITE_F16) {
            const uint16_t* w = (const uint16_t*)j->w + wat;
            const float* x = (const float*)j->x + at;
            for (int32_t i = 0; i < count; ++i) facc[i] += x[i] * xrt_half_to_float(w[i]);
          } else {
            const float* w = (const float*)j->w + wat;
            const float* x = (const float*)j->x + at;
            if (count == P)
              for (int i = 0; i < P; ++i) facc[i] += x[i] * w[i];
            else
              for (int32_t i = 0; i < count; ++i) facc[i] += x[i] * w[i];
          }
        }
      }
      const int64_t at = (int64_t)row * p->ow + ox;
      if (j->q8)
        finish_q8(j, qacc, at, c, count);
      else
        finish_f32(j, facc, at, c, count);
    }
  }
}

static xrt_lite_status depthwise(const xrt_kernel_call* call, int q8) {
  conv_job j = make_job(call, q8);
  xrt_parallel(call, j.p->n * j.p->oh, depthwise_row, &j);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_dwconv_f32(const xrt_kernel_call* call) { return depthwise(call, 0); }
xrt_lite_status xrt_generic_dwconv_q8(const xrt_kernel_call* call) { return depthwise(call, 1); }
