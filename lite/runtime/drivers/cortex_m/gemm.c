/* SPDX-License-Identifier: Apache-2.0
 * Matrix products. */
#include "cortex_m.h"

#define CHUNK 32 /* rows of a factor that are brought side by side at a time */

typedef struct gemm_job {
  const xrt_k_gemm* p;
  const uint8_t* a;
} gemm_job;

static void fetch_row(const void* job, int32_t row, int32_t k, int32_t count, int16_t* to) {
  const gemm_job* j = (const gemm_job*)job;
  const xrt_k_gemm* p = j->p;
  const uint8_t* a = j->a + (int64_t)row * p->a_row + (int64_t)k * p->a_col;
  if (p->a_col == 1) {
    xrt_cm_widen(a, count, p->x_dtype, p->x_zero, 0, to);
    return;
  }
  for (int32_t i = 0; i < count; ++i)
    to[xrt_cm_place(i)] = (int16_t)(xrt_load_q8(a, (int64_t)i * p->a_col, p->x_dtype) - p->x_zero);
}

/* Offsets of a batch, in elements. */
typedef struct place {
  int64_t a, b, y;
} place;

static place locate(const xrt_k_gemm* p, int32_t batch) {
  place at = {0, 0, 0};
  for (int i = 3; i >= 0; --i) {
    const int32_t index = batch % p->batch[i];
    batch /= p->batch[i];
    at.a += (int64_t)index * p->a_batch[i];
    at.b += (int64_t)index * p->b_batch[i];
    at.y += (int64_t)index * p->y_batch[i];
  }
  return at;
}

static int32_t batches(const xrt_k_gemm* p) {
  return p->batch[0] * p->batch[1] * p->batch[2] * p->batch[3];
}

xrt_lite_status xrt_cortex_m_gemm_q8(const xrt_kernel_call* call) {
  const xrt_k_gemm* p = (const xrt_k_gemm*)call->params;
  if (p->pack_n != 1 || p->pack_k != 4) return XRT_LITE_UNSUPPORTED;
  int next = 3;
  const void* bias = (p->flags & XRT_HAS_BIAS) ? call->operands[next++] : NULL;
  const uint8_t* r = (p->flags & XRT_HAS_RESIDUAL) ? (const uint8_t*)call->operands[next++] : NULL;
  for (int32_t i = 0; i < batches(p); ++i) {
    const place at = locate(p, i);
    const gemm_job j = {p, (const uint8_t*)call->operands[0] + at.a};
    const xrt_cm_rows m = {fetch_row,
                           &j,
                           p->m,
                           p->k,
                           p->n,
                           (const int8_t*)call->operands[1] + at.b,
                           {(const float*)call->operands[2], bias, p->activation == XRT_ACT_CLIP,
                            p->lo, p->hi, p->r_dtype, p->r_zero, p->y_dtype, p->y_zero, p->r_scale},
                           r ? r + at.y : NULL,
                           (uint8_t*)call->operands[next] + at.y,
                           p->y_row,
                           p->y_row};
    xrt_cm_multiply(&m);
  }
  return XRT_LITE_OK;
}

/* Rows [k, k + count) of four columns of the second factor, side by side. */
static const float* fetch_columns(const xrt_k_gemm* p, const uint8_t* b, int32_t column, int32_t k,
                                  int32_t count, float* to) {
  if (p->pack_n != 0) {
    const int64_t at = (int64_t)column * p->k + (int64_t)k * XRT_CM_BLOCK;
    return xrt_cm_factors(b + at * (p->weight_dtype == XRT_LITE_F16 ? 2 : 4), p->weight_dtype,
                          count, to);
  }
  const float* from =
      (const float*)(const void*)b + (int64_t)k * p->b_row + (int64_t)column * p->b_col;
  for (int32_t i = 0; i < count; ++i)
    for (int32_t c = 0; c < XRT_CM_BLOCK; ++c)
      to[i * XRT_CM_BLOCK + c] =
          column + c < p->n ? from[(int64_t)i * p->b_row + (int64_t)c * p->b_col] : 0.0f;
  return to;
}

xrt_lite_status xrt_cortex_m_gemm_f32(const xrt_kernel_call* call) {
  const xrt_k_gemm* p = (const xrt_k_gemm*)call->params;
  if (p->pack_n != 0 && (p->pack_n != XRT_CM_BLOCK || p->pack_k != 1)) return XRT_LITE_UNSUPPORTED;
  const int64_t element = p->pack_n != 0 && p->weight_dtype == XRT_LITE_F16 ? 2 : 4;
  int next = 2;
  const void* bias = (p->flags & XRT_HAS_BIAS) ? call->operands[next++] : NULL;
  const float* residual =
      (p->flags & XRT_HAS_RESIDUAL) ? (const float*)call->operands[next++] : NULL;
  const xrt_cm_finish finish = {NULL, bias, p->activation == XRT_ACT_CLIP, p->lo, p->hi, 0, 0, 0,
                                0,    0};
  float columns[CHUNK * XRT_CM_BLOCK];
  for (int32_t i = 0; i < batches(p); ++i) {
    const place at = locate(p, i);
    const uint8_t* b = (const uint8_t*)call->operands[1] + at.b * element;
    for (int32_t n = 0; n < p->n; n += XRT_CM_BLOCK) {
      for (int32_t m = 0; m < p->m; m += 2) {
        const int32_t rows = p->m - m < 2 ? 1 : 2;
        const float* a = (const float*)call->operands[0] + at.a + (int64_t)m * p->a_row;
        float acc[2][XRT_CM_BLOCK] = {{0}};
        for (int32_t k = 0; k < p->k; k += CHUNK) {
          const int32_t count = p->k - k < CHUNK ? p->k - k : CHUNK;
          const float* from[2] = {a + (int64_t)k * p->a_col,
                                  a + (int64_t)k * p->a_col + (rows == 2 ? p->a_row : 0)};
          xrt_cm_mac_f32(acc, from, rows, p->a_col, fetch_columns(p, b, n, k, count, columns),
                         count);
        }
        for (int32_t row = 0; row < rows; ++row) {
          const int64_t y = at.y + (int64_t)(m + row) * p->y_row;
          for (int32_t c = n; c < p->n && c < n + XRT_CM_BLOCK; ++c)
            xrt_cm_store_f32(&finish, acc[row][c - n] * p->alpha, c, residual ? residual + y : NULL,
                             (float*)call->operands[next] + y);
        }
      }
    }
  }
  return XRT_LITE_OK;
}
