/* SPDX-License-Identifier: Apache-2.0
 * NEON of any 64-bit Arm processor: a block of 16 channels is four registers. */
#include <arm_neon.h>

#include "arm.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float32x4_t load_factors(const uint8_t* w, int q, const int half) {
  if (!half) return vld1q_f32((const float*)(const void*)w + 4 * q);
  const uint16x4_t bits = vld1_u16((const uint16_t*)(const void*)w + 4 * q);
  return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}

INLINE void mac_float(const xrt_tile* t, const int rows, const int half) {
  float32x4_t acc[XRT_ARM_ROWS][4];
  float* sums = (float*)t->acc;
  XRT_ARM_EACH (r, rows)
    XRT_ARM_EACH (q, 4)
      acc[r][q] = t->accumulate ? vld1q_f32(sums + r * XRT_TILE_BLOCK + 4 * q) : vdupq_n_f32(0.0f);
  const int32_t step = XRT_TILE_BLOCK * (half ? 2 : 4);
  for (int32_t s = 0; s < t->segments; ++s) {
    const float* row[XRT_ARM_ROWS];
    XRT_ARM_EACH (r, rows) row[r] = (const float*)t->rows[s][r];
    const uint8_t* w = (const uint8_t*)t->w + s * t->segment_bytes;
    int32_t k = 0;
    for (; k + 4 <= t->run; k += 4) {
      float32x4_t x[XRT_ARM_ROWS];
      XRT_ARM_EACH (r, rows) x[r] = vld1q_f32(row[r] + k);
#define STEP(LANE)                                                                \
  XRT_ARM_EACH (q, 4) {                                                           \
    const float32x4_t f = load_factors(w, q, half);                               \
    XRT_ARM_EACH (r, rows) acc[r][q] = vfmaq_laneq_f32(acc[r][q], f, x[r], LANE); \
  }                                                                               \
  w += step;
      STEP(0)
      STEP(1)
      STEP(2)
      STEP(3)
#undef STEP
    }
    for (; k < t->run; ++k, w += step) {
      XRT_ARM_EACH (q, 4) {
        const float32x4_t f = load_factors(w, q, half);
        XRT_ARM_EACH (r, rows) acc[r][q] = vfmaq_n_f32(acc[r][q], f, row[r][k]);
      }
    }
  }
  XRT_ARM_EACH (r, rows)
    XRT_ARM_EACH (q, 4) vst1q_f32(sums + r * XRT_TILE_BLOCK + 4 * q, acc[r][q]);
}

void xrt_arm_mac_f32(const xrt_tile* t) {
#define CALL(R) mac_float(t, R, 0)
  XRT_ARM_BY_ROWS(CALL)
#undef CALL
}

void xrt_arm_mac_f16(const xrt_tile* t){
#define CALL(R) mac_float(t, R, 1)
    XRT_ARM_BY_ROWS(CALL)
#undef CALL
}

/* Exact: products of bytes fit into 16 bits, even that of -128 by itself, and are added in pairs
 * to 32 bits. A register holds two channels, two sums each, which are added at the end. */
INLINE void mac_int8(const xrt_tile* t, int32_t first, const int rows) {
  int32x4_t acc[2][8];
  XRT_ARM_EACH (r, rows)
    XRT_ARM_EACH (q, 8) acc[r][q] = vdupq_n_s32(0);
  for (int32_t s = 0; s < t->segments; ++s) {
    const uint8_t* row[2];
    XRT_ARM_EACH (r, rows) row[r] = (const uint8_t*)t->rows[s][first + r];
    const int8_t* w = (const int8_t*)t->w + s * t->segment_bytes;
    for (int32_t k = 0; k < t->run; ++k, w += XRT_TILE_BLOCK * 4) {
      int8x16_t x[2];
      XRT_ARM_EACH (r, rows) {
        uint32_t four;
        memcpy(&four, row[r] + 4 * (int64_t)k, 4);
        x[r] = vreinterpretq_s8_u32(vdupq_n_u32(four ^ t->flip));
      }
      XRT_ARM_EACH (q, 4) {
        const int8x16_t f = vld1q_s8(w + 16 * q);
        XRT_ARM_EACH (r, rows) {
          acc[r][2 * q] = vpadalq_s16(acc[r][2 * q], vmull_s8(vget_low_s8(f), vget_low_s8(x[r])));
          acc[r][2 * q + 1] = vpadalq_s16(acc[r][2 * q + 1], vmull_high_s8(f, x[r]));
        }
      }
    }
  }
  XRT_ARM_EACH (r, rows) {
    int32_t* sums = (int32_t*)t->acc + (first + r) * XRT_TILE_BLOCK;
    XRT_ARM_EACH (q, 4) {
      int32x4_t v = vpaddq_s32(acc[r][2 * q], acc[r][2 * q + 1]);
      if (t->accumulate) v = vaddq_s32(v, vld1q_s32(sums + 4 * q));
      vst1q_s32(sums + 4 * q, v);
    }
  }
}

static void mac_q8(const xrt_tile* t) {
  int32_t r = 0;
  for (; r + 2 <= t->row_count; r += 2) mac_int8(t, r, 2);
  if (r < t->row_count) mac_int8(t, r, 1);
}

/* Four channels of one row, from their sums to the result; at channel c of the tile. maxnm and
 * minnm take the bound where the value is NaN, as the portable kernels do. */
INLINE void store4_f32(const xrt_tile_finish* f, float32x4_t v, int32_t c, const uint8_t* r,
                       uint8_t* y) {
  v = vmulq_n_f32(v, f->alpha);
  if (f->bias) v = vaddq_f32(v, vld1q_f32((const float*)f->bias + c));
  if (r) v = vaddq_f32(v, vld1q_f32((const float*)(const void*)r + c));
  if (f->clip) v = vminnmq_f32(vmaxnmq_f32(v, vdupq_n_f32(f->lo)), vdupq_n_f32(f->hi));
  vst1q_f32((float*)(void*)y + c, v);
}

INLINE void store1_f32(const xrt_tile_finish* f, float v, int32_t c, const uint8_t* r, uint8_t* y) {
  v *= f->alpha;
  if (f->bias) v += ((const float*)f->bias)[c];
  if (r) v += ((const float*)(const void*)r)[c];
  ((float*)(void*)y)[c] = f->clip ? xrt_clip(v, f->lo, f->hi) : v;
}

INLINE void store4_q8(const xrt_tile_finish* f, int32x4_t sum, int32_t c, const uint8_t* r,
                      uint8_t* y) {
  if (f->factor_sums) sum = vmlsq_n_s32(sum, vld1q_s32(f->factor_sums + c), f->x_zero);
  if (f->bias) sum = vaddq_s32(sum, vld1q_s32((const int32_t*)f->bias + c));
  float32x4_t v = vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(f->scale + c));
  if (r) {
    uint32_t four;
    memcpy(&four, r + c, 4);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    const int16x8_t wide = f->r_dtype == XRT_LITE_U8 ? vreinterpretq_s16_u16(vmovl_u8(bytes))
                                                     : vmovl_s8(vreinterpret_s8_u8(bytes));
    const int32x4_t other = vsubq_s32(vmovl_s16(vget_low_s16(wide)), vdupq_n_s32(f->r_zero));
    v = vaddq_f32(v, vmulq_n_f32(vcvtq_f32_s32(other), f->r_scale));
  }
  if (f->clip) v = vminnmq_f32(vmaxnmq_f32(v, vdupq_n_f32(f->lo)), vdupq_n_f32(f->hi));
  v = vminnmq_f32(vmaxnmq_f32(v, vdupq_n_f32(-1024.0f)), vdupq_n_f32(1024.0f));
  int32x4_t q = vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(f->y_zero));
  const int is_u8 = f->y_dtype == XRT_LITE_U8;
  q = vmaxq_s32(q, vdupq_n_s32(is_u8 ? 0 : -128));
  q = vminq_s32(q, vdupq_n_s32(is_u8 ? 255 : 127));
  const int16x4_t narrow = vmovn_s32(q);
  const int8x8_t bytes = vmovn_s16(vcombine_s16(narrow, narrow));
  const uint32_t result = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
  memcpy(y + c, &result, 4);
}

INLINE void store1_q8(const xrt_tile_finish* f, int32_t sum, int32_t c, const uint8_t* r,
                      uint8_t* y) {
  uint32_t total = (uint32_t)sum;
  if (f->factor_sums) total -= (uint32_t)f->factor_sums[c] * (uint32_t)f->x_zero;
  if (f->bias) total += (uint32_t)((const int32_t*)f->bias)[c];
  float v = (float)(int32_t)total * f->scale[c];
  if (r) v = v + (float)(xrt_load_q8(r, c, f->r_dtype) - f->r_zero) * f->r_scale;
  if (f->clip) v = xrt_clip(v, f->lo, f->hi);
  y[c] = (uint8_t)xrt_to_q8(v, f->y_zero, f->y_dtype);
}

void xrt_arm_finish_f32(const xrt_tile_finish* f) {
  const int32_t width = f->block_count * XRT_TILE_BLOCK;
  const int32_t count = f->channels < width ? f->channels : width;
  const float* acc = (const float*)f->acc;
  for (int32_t i = 0; i < f->row_count; ++i, acc += width) {
    const uint8_t* r = f->r ? f->r + i * f->r_row : NULL;
    uint8_t* y = f->y + i * f->y_row;
    int32_t c = 0;
    for (; c + 4 <= count; c += 4) store4_f32(f, vld1q_f32(acc + c), c, r, y);
    for (; c < count; ++c) store1_f32(f, acc[c], c, r, y);
  }
}

void xrt_arm_finish_q8(const xrt_tile_finish* f) {
  const int32_t width = f->block_count * XRT_TILE_BLOCK;
  const int32_t count = f->channels < width ? f->channels : width;
  const int32_t* acc = (const int32_t*)f->acc;
  for (int32_t i = 0; i < f->row_count; ++i, acc += width) {
    const uint8_t* r = f->r ? f->r + i * f->r_row : NULL;
    uint8_t* y = f->y + i * f->y_row;
    int32_t c = 0;
    for (; c + 4 <= count; c += 4) store4_q8(f, vld1q_s32(acc + c), c, r, y);
    for (; c < count; ++c) store1_q8(f, acc[c], c, r, y);
  }
}

#define RESIDUAL(PIXEL) (d->finish.r ? d->finish.r + (PIXEL)*d->r_step : NULL)

/* Pixels at once, so that a factor is loaded once for all of them; 4 or 8 channels. */
INLINE void depthwise4_f32(const xrt_tile_depthwise* d, int32_t i, int32_t c, const int pixels) {
  float32x4_t acc[4];
  XRT_ARM_EACH (p, pixels) acc[p] = vdupq_n_f32(0.0f);
  for (int32_t t = 0; t < d->tap_count; ++t) {
    const float32x4_t f = vld1q_f32((const float*)d->w + (int64_t)d->w_index[t] * d->channels + c);
    const uint8_t* x = d->taps[t] + i * d->x_step + 4 * (int64_t)c;
    XRT_ARM_EACH (p, pixels)
      acc[p] = vfmaq_f32(acc[p], vld1q_f32((const float*)(const void*)(x + p * d->x_step)), f);
  }
  XRT_ARM_EACH (p, pixels)
    store4_f32(&d->finish, acc[p], c, RESIDUAL(i + p), d->finish.y + (i + p) * d->y_step);
}

INLINE void depthwise8_q8(const xrt_tile_depthwise* d, int32_t i, int32_t c, const int pixels) {
  const int16x8_t zero = vdupq_n_s16((int16_t)d->finish.x_zero);
  int32x4_t acc[4][2];
  XRT_ARM_EACH (p, pixels) acc[p][0] = acc[p][1] = vdupq_n_s32(0);
  for (int32_t t = 0; t < d->tap_count; ++t) {
    const int16x8_t f =
        vmovl_s8(vld1_s8((const int8_t*)d->w + (int64_t)d->w_index[t] * d->channels + c));
    const uint8_t* x = d->taps[t] + i * d->x_step + c;
    XRT_ARM_EACH (p, pixels) {
      const uint8x8_t bytes = vld1_u8(x + p * d->x_step);
      const int16x8_t wide = d->x_signed ? vmovl_s8(vreinterpret_s8_u8(bytes))
                                         : vreinterpretq_s16_u16(vmovl_u8(bytes));
      const int16x8_t v = vsubq_s16(wide, zero);
      acc[p][0] = vmlal_s16(acc[p][0], vget_low_s16(v), vget_low_s16(f));
      acc[p][1] = vmlal_high_s16(acc[p][1], v, f);
    }
  }
  XRT_ARM_EACH (p, pixels)
    XRT_ARM_EACH (h, 2)
      store4_q8(&d->finish, acc[p][h], c + 4 * h, RESIDUAL(i + p),
                d->finish.y + (i + p) * d->y_step);
}

void xrt_arm_depthwise_f32(const xrt_tile_depthwise* d) {
  int32_t c = 0;
  for (; c + 4 <= d->channels; c += 4) {
    int32_t i = 0;
    for (; i + 4 <= d->count; i += 4) depthwise4_f32(d, i, c, 4);
    for (; i < d->count; ++i) depthwise4_f32(d, i, c, 1);
  }
  for (; c < d->channels; ++c) {
    for (int32_t i = 0; i < d->count; ++i) {
      float sum = 0.0f;
      for (int32_t t = 0; t < d->tap_count; ++t)
        sum += ((const float*)(const void*)(d->taps[t] + i * d->x_step))[c] *
               ((const float*)d->w)[(int64_t)d->w_index[t] * d->channels + c];
      store1_f32(&d->finish, sum, c, RESIDUAL(i), d->finish.y + i * d->y_step);
    }
  }
}

void xrt_arm_depthwise_q8(const xrt_tile_depthwise* d) {
  int32_t c = 0;
  for (; c + 8 <= d->channels; c += 8) {
    int32_t i = 0;
    for (; i + 4 <= d->count; i += 4) depthwise8_q8(d, i, c, 4);
    for (; i < d->count; ++i) depthwise8_q8(d, i, c, 1);
  }
  const int32_t dtype = d->x_signed ? XRT_LITE_I8 : XRT_LITE_U8;
  for (; c < d->channels; ++c) {
    for (int32_t i = 0; i < d->count; ++i) {
      int32_t sum = 0;
      for (int32_t t = 0; t < d->tap_count; ++t)
        sum += (xrt_load_q8(d->taps[t] + i * d->x_step, c, dtype) - d->finish.x_zero) *
               ((const int8_t*)d->w)[(int64_t)d->w_index[t] * d->channels + c];
      store1_q8(&d->finish, sum, c, RESIDUAL(i), d->finish.y + i * d->y_step);
    }
  }
}

void xrt_arm_max_f32(float* y, const float* x, int32_t count) {
  int32_t c = 0;
  for (; c + 4 <= count; c += 4) {
    const float32x4_t a = vld1q_f32(x + c), b = vld1q_f32(y + c);
    vst1q_f32(y + c, vbslq_f32(vcgtq_f32(a, b), a, b));
  }
  for (; c < count; ++c) y[c] = x[c] > y[c] ? x[c] : y[c];
}

void xrt_arm_add_f32(float* y, const float* x, int32_t count) {
  int32_t c = 0;
  for (; c + 4 <= count; c += 4) vst1q_f32(y + c, vaddq_f32(vld1q_f32(x + c), vld1q_f32(y + c)));
  for (; c < count; ++c) y[c] += x[c];
}

void xrt_arm_max_u8(uint8_t* y, const uint8_t* x, int32_t count, uint8_t flip) {
  const uint8x16_t other = vdupq_n_u8(flip);
  int32_t c = 0;
  for (; c + 16 <= count; c += 16) {
    const uint8x16_t a = veorq_u8(vld1q_u8(x + c), other), b = veorq_u8(vld1q_u8(y + c), other);
    vst1q_u8(y + c, veorq_u8(vmaxq_u8(a, b), other));
  }
  for (; c < count; ++c) {
    const uint8_t a = x[c] ^ flip, b = y[c] ^ flip;
    y[c] = (uint8_t)((a > b ? a : b) ^ flip);
  }
}

const xrt_tile_isa xrt_arm_neon = XRT_ARM_ISA(mac_q8);
