/* SPDX-License-Identifier: Apache-2.0
 * Matrix products. A factor that is no constant is brought into panels on the stack, CHUNK of its
 * rows at a time; partial sums wait in y. */
#include "generic.h"

#define P XRT_GENERIC_PACK
#define T 4
#define CHUNK 64
#define ROWS 32 /* per task */

typedef struct gemm_job {
  const xrt_k_gemm* p;
  const void* a;
  const void* b;
  const float* scale;
  const void* bias;
  const void* r;
  void* y;
} gemm_job;

static gemm_job make_job(const xrt_kernel_call* call, int q8) {
  const xrt_k_gemm* p = (const xrt_k_gemm*)call->params;
  gemm_job j = {p, call->operands[0], call->operands[1], NULL, NULL, NULL, NULL};
  int next = 2;
  if (q8) j.scale = (const float*)call->operands[next++];
  if (p->flags & XRT_HAS_BIAS) j.bias = call->operands[next++];
  if (p->flags & XRT_HAS_RESIDUAL) j.r = call->operands[next++];
  j.y = call->operands[next];
  return j;
}

typedef struct gemm_place {
  int64_t a, b, y; /* elements */
  int32_t m, m_end, column;
} gemm_place;

/* Which batch, rows and columns a task has. */
static gemm_place locate(const xrt_k_gemm* p, int32_t task) {
  const int32_t columns = (p->n + P - 1) / P, rows = (p->m + ROWS - 1) / ROWS;
  gemm_place at = {0, 0, 0, 0, 0, (task % columns) * P};
  task /= columns;
  at.m = (task % rows) * ROWS;
  at.m_end = at.m + ROWS < p->m ? at.m + ROWS : p->m;
  int32_t batch = task / rows;
  for (int i = 3; i >= 0; --i) {
    const int32_t index = batch % p->batch[i];
    batch /= p->batch[i];
    at.a += (int64_t)index * p->a_batch[i];
    at.b += (int64_t)index * p->b_batch[i];
    at.y += (int64_t)index * p->y_batch[i];
  }
  return at;
}

static int32_t task_count(const xrt_k_gemm* p) {
  return ((p->n + P - 1) / P) * ((p->m + ROWS - 1) / ROWS) * p->batch[0] * p->batch[1] *
         p->batch[2] * p->batch[3];
}

static void finish(const gemm_job* j, const float* acc, int64_t y_at, int32_t column,
                   int32_t count) {
  const xrt_k_gemm* p = j->p;
  float* y = (float*)j->y + y_at;
  const float* bias = (const float*)j->bias;
  const float* r = j->r ? (const float*)j->r + y_at : NULL;
  for (int32_t i = 0; i < count; ++i) {
    float v = acc[i] * p->alpha;
    if (bias) v += bias[column + i];
    if (r) v += r[i];
    y[i] = p->activation == XRT_ACT_CLIP ? xrt_clip(v, p->lo, p->hi) : v;
  }
}

/* Adds the sums over at most CHUNK terms: long sums lose less by parts. */
static void multiply(float acc[T][P], const float* a, int64_t row, int64_t col, int32_t rows,
                     const float* w, int32_t count) {
  float part[T][P] = {{0}};
  if (rows == T && col == 1) {
    const float *a0 = a, *a1 = a + row, *a2 = a + 2 * row, *a3 = a + 3 * row;
    for (int32_t k = 0; k < count; ++k, w += P)
      for (int i = 0; i < P; ++i) {
        part[0][i] += a0[k] * w[i];
        part[1][i] += a1[k] * w[i];
        part[2][i] += a2[k] * w[i];
        part[3][i] += a3[k] * w[i];
      }
  } else {
    for (int32_t k = 0; k < count; ++k, w += P)
      for (int32_t t = 0; t < rows; ++t) {
        const float v = a[t * row + k * col];
        for (int i = 0; i < P; ++i) part[t][i] += v * w[i];
      }
  }
  for (int32_t t = 0; t < rows; ++t)
    for (int i = 0; i < P; ++i) acc[t][i] += part[t][i];
}

/* Rows [k, k + count) of the task's columns as a panel. */
static void fetch(const gemm_job* j, const gemm_place* at, int32_t k, int32_t count,
                  float panel[CHUNK * P]) {
  const xrt_k_gemm* p = j->p;
  const int32_t columns = p->n - at->column < P ? p->n - at->column : P;
  if (p->pack_n > 0) { /* float16 */
    const uint16_t* w =
        (const uint16_t*)j->b + at->b + ((int64_t)at->column * p->k + (int64_t)k * P);
    for (int32_t i = 0; i < count * P; ++i) panel[i] = xrt_half_to_float(w[i]);
    return;
  }
  const float* b =
      (const float*)j->b + at->b + (int64_t)k * p->b_row + (int64_t)at->column * p->b_col;
  for (int32_t r = 0; r < count; ++r)
    for (int32_t i = 0; i < P; ++i)
      panel[r * P + i] = i < columns ? b[(int64_t)r * p->b_row + (int64_t)i * p->b_col] : 0.0f;
}

static void gemm_task(void* argument, int32_t task) {
  const gemm_job* j = (const gemm_job*)argument;
  const xrt_k_gemm* p = j->p;
  const gemm_place at = locate(p, task);
  const int32_t columns = p->n - at.column < P ? p->n - at.column : P;
  const int direct = p->pack_n > 0 && p->weight_dtype == XRT_LITE_F32;
  float panel[CHUNK * P];
  /* Partial sums of several panels are kept here. */
  float sums[ROWS][P];
  memset(sums, 0, sizeof(sums));
  for (int32_t k = 0; k < p->k; k += CHUNK) {
    const int32_t count = p->k - k < CHUNK ? p->k - k : CHUNK;
    const float* w = panel;
    if (direct)
      w = (const float*)j->b + at.b + (int64_t)at.column * p->k + (int64_t)k * P;
    else
      fetch(j, &at, k, count, panel);
    for (int32_t m = at.m; m < at.m_end; m += T) {
      const int32_t rows = at.m_end - m < T ? at.m_end - m : T;
      const float* a = (const float*)j->a + at.a + (int64_t)m * p->a_row + (int64_t)k * p->a_col;
      multiply(&sums[m - at.m], a, p->a_row, p->a_col, rows, w, count);
    }
  }
  for (int32_t m = at.m; m < at.m_end; ++m)
    finish(j, sums[m - at.m], at.y + (int64_t)m * p->y_row + at.column, at.column, columns);
}

static void gemm_q8_task(void* argument, int32_t task) {
  const gemm_job* j = (const gemm_job*)argument;
  const xrt_k_gemm* p = j->p;
  const gemm_place at = locate(p, task);
  const int32_t columns = p->n - at.column < P ? p->n - at.column : P;
  const int8_t* w = (const int8_t*)j->b + at.b + (int64_t)at.column * p->k;
  const int32_t* bias = (const int32_t*)j->bias;
  for (int32_t m = at.m; m < at.m_end; ++m) {
    int32_t acc[P] = {0};
    for (int32_t k = 0; k < p->k; ++k) {
      const int32_t v =
          xrt_load_q8(j->a, at.a + (int64_t)m * p->a_row + (int64_t)k * p->a_col, p->x_dtype) -
          p->x_zero;
      for (int i = 0; i < P; ++i)
        acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)(v * w[(int64_t)k * P + i]));
    }
    const int64_t y_at = at.y + (int64_t)m * p->y_row + at.column;
    for (int32_t i = 0; i < columns; ++i) {
      const int32_t c = at.column + i;
      const int32_t sum = (int32_t)((uint32_t)acc[i] + (uint32_t)(bias ? bias[c] : 0));
      float v = (float)sum * j->scale[c];
      if (j->r) {
        const int32_t r = xrt_load_q8(j->r, y_at + i, p->r_dtype) - p->r_zero;
        v = v + (float)r * p->r_scale;
      }
      if (p->activation == XRT_ACT_CLIP) v = xrt_clip(v, p->lo, p->hi);
      ((uint8_t*)j->y)[y_at + i] = (uint8_t)xrt_to_q8(v, p->y_zero, p->y_dtype);
    }
  }
}

xrt_lite_status xrt_generic_gemm_f32(const xrt_kernel_call* call) {
  gemm_job j = make_job(call, 0);
  if (j.p->pack_n != 0 && (j.p->pack_n != P || j.p->pack_k != 1)) return XRT_LITE_UNSUPPORTED;
  xrt_parallel(call, task_count(j.p), gemm_task, &j);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_gemm_q8(const xrt_kernel_call* call) {
  gemm_job j = make_job(call, 1);
  if (j.p->pack_n != P || j.p->pack_k != 1) return XRT_LITE_UNSUPPORTED;
  xrt_parallel(call, task_count(j.p), gemm_q8_task, &j);
  return XRT_LITE_OK;
}
