/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver "cortex-m": kernels for processors with little memory and no threads. What is compiled
 * depends on the processor: pairs of 16-bit products (SMLAD) where it has the DSP extension, eight
 * at once where it has MVE, else plain C, which runs anywhere. All give the same int8 results.
 *
 * Packing of constant factors: of int8 one channel after the other, filled up to four factors; of
 * float four channels side by side. int8 inputs are widened to 16 bits once for all channels, their
 * zero point taken off, XRT_CM_CHUNK at a time on the stack. */
#ifndef XRT_LITE_CORTEX_M_H_
#define XRT_LITE_CORTEX_M_H_

#include "../generic/generic.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#define XRT_CM_MVE 1
#include <arm_mve.h>
#elif defined(__ARM_FEATURE_SIMD32)
#define XRT_CM_DSP 1
#include <arm_acle.h>
#endif

#define XRT_CM_CHUNK 256   /* values of a row that are widened at a time; a multiple of 4 */
#define XRT_CM_CHANNELS 32 /* whose sums wait where a row has more values; even */
#define XRT_CM_BLOCK 4     /* channels side by side in float factors */

/* What a sum becomes: kernel.h, "CPU kernels compute int8 exactly alike". */
typedef struct xrt_cm_finish {
  const float* scale; /* of channel 0 from here on */
  const void* bias;   /* or null */
  int32_t clip;
  float lo, hi;
  int32_t r_dtype, r_zero, y_dtype, y_zero;
  float r_scale;
} xrt_cm_finish;

/* Channel c of one row; `r` and `y` are the row's, r may be null. */
static inline void xrt_cm_store_q8(const xrt_cm_finish* f, int32_t sum, int32_t c, const void* r,
                                   void* y) {
  if (f->bias) sum = (int32_t)((uint32_t)sum + (uint32_t)((const int32_t*)f->bias)[c]);
  float v = (float)sum * f->scale[c];
  if (r) v = v + (float)(xrt_load_q8(r, c, f->r_dtype) - f->r_zero) * f->r_scale;
  if (f->clip) v = xrt_clip(v, f->lo, f->hi);
  ((uint8_t*)y)[c] = (uint8_t)xrt_to_q8(v, f->y_zero, f->y_dtype);
}

static inline void xrt_cm_store_f32(const xrt_cm_finish* f, float v, int32_t c, const float* r,
                                    float* y) {
  if (f->bias) v += ((const float*)f->bias)[c];
  if (r) v += r[c];
  y[c] = f->clip ? xrt_clip(v, f->lo, f->hi) : v;
}

/* Rows of int8 values times channels of int8 factors. */
typedef struct xrt_cm_rows {
  /* Widens values [k, k + count) of a row with xrt_cm_widen and xrt_cm_put. */
  void (*fetch)(const void* job, int32_t row, int32_t k, int32_t count, int16_t* to);
  const void* job;
  int32_t rows, k, channels;
  const int8_t* w; /* [channels][k filled up to four] */
  xrt_cm_finish finish;
  const uint8_t* r;
  uint8_t* y;
  int64_t r_row, y_row;
} xrt_cm_rows;
void xrt_cm_multiply(const xrt_cm_rows* m);

/* Where value k of a row lies in its widened form: SMLAD takes even and odd ones apart. */
static inline int32_t xrt_cm_place(int32_t k) {
#ifdef XRT_CM_DSP
  return (k & ~3) + ((k & 1) << 1) + ((k >> 1) & 1);
#else
  return k;
#endif
}

/* Values [first, first + count) of a widened row. */
void xrt_cm_widen(const uint8_t* from, int32_t count, int32_t dtype, int32_t zero, int32_t first,
                  int16_t* to);

/* acc[row][channel] += row[k] * w[k][channel] over k < count, of one or two rows of four channels;
 * `step` is from a value of a row to the next. */
void xrt_cm_mac_f32(float acc[2][XRT_CM_BLOCK], const float* const* row, int32_t rows, int64_t step,
                    const float* w, int32_t count);

/* Four channels of factors as floats: where they are, or from half precision in `buffer`, of which
 * `most` rows fit. */
const float* xrt_cm_factors(const void* w, int32_t dtype, int32_t count, float* buffer);

xrt_lite_status xrt_cortex_m_conv_f32(const xrt_kernel_call* call);
xrt_lite_status xrt_cortex_m_conv_q8(const xrt_kernel_call* call);
xrt_lite_status xrt_cortex_m_dwconv_f32(const xrt_kernel_call* call);
xrt_lite_status xrt_cortex_m_dwconv_q8(const xrt_kernel_call* call);
xrt_lite_status xrt_cortex_m_gemm_f32(const xrt_kernel_call* call);
xrt_lite_status xrt_cortex_m_gemm_q8(const xrt_kernel_call* call);

#endif /* XRT_LITE_CORTEX_M_H_ */
