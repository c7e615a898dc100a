/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, tanh, sigmoid and erf in plain arithmetic: without branches, so that compilers make vectors
 * of loops over them, and, other than libm's, with the same bits on every processor (the runtime is
 * compiled without contraction to fused multiply-add). Errors are relative to the result, but for
 * erf, whose are absolute; tests/lite/runtime_test.cc holds them. The polynomials are Chebyshev
 * interpolations of the functions that are named beside them. */
#ifndef XRT_LITE_VECTOR_MATH_H_
#define XRT_LITE_VECTOR_MATH_H_

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline float xrt_power_of_two(int32_t n) { /* -126 .. 127 */
  const uint32_t bits = (uint32_t)(n + 127) << 23;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

/* 2e-7. Infinite beyond 88.7, 0 below -104; NaN of NaN. */
static inline float xrt_exp(float x) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: sums with it have no fraction */
  x = x < -110.0f ? -110.0f : x;
  x = x > 90.0f ? 90.0f : x;
  const float sum = x * 1.44269504f + magic;
  int32_t n;
  memcpy(&n, &sum, 4);
  n -= 0x4b400000; /* the bits of magic; of NaN it is masked out below */
  n = ((n + 256) & 511) - 256;
  const float k = sum - magic;
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f; /* ln 2 in two parts */
  float p = 1.98994210e-4f; /* (e^r - 1 - r) / r^2, |r| < 0.347 */
  p = p * r + 1.39337534e-3f;
  p = p * r + 8.33329838e-3f;
  p = p * r + 4.16664630e-2f;
  p = p * r + 1.66666672e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  const int32_t half = n >> 1; /* 2^n in two factors: n may be beyond a float's exponents */
  return p * xrt_power_of_two(half) * xrt_power_of_two(n - half);
}

/* 3e-7 */
static inline float xrt_sigmoid(float x) { return 1.0f / (1.0f + xrt_exp(-x)); }

/* 3e-7 */
static inline float xrt_tanh(float x) {
  const float a = x < 0.0f ? -x : x;
  const float z = x * x;
  float p = 1.76876385e-3f; /* (tanh(x) / x - 1) / x^2, x^2 < 0.64 */
  p = p * z + -7.74390390e-3f;
  p = p * z + 2.15266813e-2f;
  p = p * z + -5.39192222e-2f;
  p = p * z + 1.33330733e-1f;
  p = p * z + -3.33333313e-1f;
  const float near = x * z * p + x;
  const float far = 1.0f - 2.0f / (xrt_exp(2.0f * a) + 1.0f);
  const float signed_far = x < 0.0f ? -far : far;
  return a < 0.8f ? near : signed_far;
}

/* 2e-7 */
static inline float xrt_erf(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float a = magnitude > 4.0f ? 4.0f : magnitude;
  const float z = a * a;
  float p = 7.88249745e-5f; /* erf(x) / x, x^2 < 1 */
  p = p * z + -8.01885501e-4f;
  p = p * z + 5.18931216e-3f;
  p = p * z + -2.68543288e-2f;
  p = p * z + 1.12835974e-1f;
  p = p * z + -3.76126260e-1f;
  p = p * z + 1.12837911f;
  const float near = x * p;
  float q = 1.33093900e-5f; /* -log(1 - erf(x)), 1 <= x <= 4 */
  q = q * a + -3.17572034e-4f;
  q = q * a + 3.43686761e-3f;
  q = q * a + -2.26219855e-2f;
  q = q * a + 1.03318982e-1f;
  q = q * a + 6.39093339e-1f;
  q = q * a + 1.12592590f;
  q = q * a + 7.56968628e-4f;
  const float far = 1.0f - xrt_exp(-q);
  const float signed_far = x < 0.0f ? -far : far;
  return a < 1.0f ? near : signed_far;
}

#ifdef __cplusplus
}
#endif

#endif /* XRT_LITE_VECTOR_MATH_H_ */
