/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic that kernels of all CPU drivers share, so that int8 comes out alike everywhere. */
#ifndef XRT_LITE_KERNEL_MATH_H_
#define XRT_LITE_KERNEL_MATH_H_

#include <float.h>
#include <string.h>

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs task(argument, i) for i in [0, count), on the context's threads if it has any. */
static inline void xrt_parallel(const xrt_kernel_call* call, int32_t count,
                                void (*task)(void*, int32_t), void* argument) {
  if (call->threads != NULL && call->threads->count > 1 && count > 1) {
    call->threads->run(call->threads->pool, task, argument, count);
    return;
  }
  for (int32_t i = 0; i < count; ++i) task(argument, i);
}

/* Nearest integer, halves to even, for |v| <= 2^22; independent of the rounding functions of libm
 * and exact without a floating-point unit. */
static inline float xrt_round_half_even(float v) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: sums with it have no fraction */
#if FLT_EVAL_METHOD == 0
  const float sum = v + magic;
#else /* where float is computed wider, memory makes it a float again */
  volatile float sum = v + magic;
#endif
  return sum - magic;
}

/* Saturates v + zero to uint8 or int8. Any v, also NaN. */
static inline int32_t xrt_to_q8(float v, int32_t zero, int32_t dtype) {
  if (!(v > -1024.0f)) v = -1024.0f;
  if (!(v < 1024.0f)) v = 1024.0f;
  const int32_t q = (int32_t)xrt_round_half_even(v) + zero;
  const int32_t low = dtype == XRT_LITE_U8 ? 0 : -128;
  const int32_t high = dtype == XRT_LITE_U8 ? 255 : 127;
  return q < low ? low : q > high ? high : q;
}

static inline int32_t xrt_load_q8(const void* p, int64_t i, int32_t dtype) {
  return dtype == XRT_LITE_U8 ? ((const uint8_t*)p)[i] : ((const int8_t*)p)[i];
}

static inline float xrt_clip(float v, float lo, float hi) {
  v = v > lo ? v : lo;
  return v < hi ? v : hi;
}

static inline float xrt_half_to_float(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u, bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112u) << 23) | (mantissa << 13);
  } else {
    float v = (float)mantissa * (1.0f / 16777216.0f);
    memcpy(&bits, &v, 4);
    bits |= sign;
  }
  float result;
  memcpy(&result, &bits, 4);
  return result;
}

static inline uint16_t xrt_float_to_half(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (bits < 0x38800000u) { /* subnormal: scaled, then rounded by the addition */
    float magnitude;
    memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;
    uint32_t sum;
    memcpy(&sum, &magnitude, 4);
    return (uint16_t)(sign | (sum - 0x3f000000u));
  }
  bits += 0xc8000fffu + ((bits >> 13) & 1u);
  return (uint16_t)(sign | (bits >> 13));
}

#ifdef __cplusplus
}
#endif

#endif /* XRT_LITE_KERNEL_MATH_H_ */
