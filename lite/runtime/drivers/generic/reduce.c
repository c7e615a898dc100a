/* SPDX-License-Identifier: Apache-2.0
 * What runs over an axis: reductions, softmax, layer normalisation, the place of the largest. */
#include <math.h>

#include "generic.h"
#include "vector_math.h"

static float start(int32_t kind) {
  switch (kind) {
    case XRT_REDUCE_MAX:
      return -INFINITY;
    case XRT_REDUCE_MIN:
      return INFINITY;
    case XRT_REDUCE_PROD:
      return 1.0f;
    default:
      return 0.0f;
  }
}

static float step(int32_t kind, float acc, float v) {
  switch (kind) {
    case XRT_REDUCE_MAX:
      return v > acc || v != v ? v : acc;
    case XRT_REDUCE_MIN:
      return v < acc || v != v ? v : acc;
    case XRT_REDUCE_PROD:
      return acc * v;
    case XRT_REDUCE_SUM_SQUARE:
    case XRT_REDUCE_L2:
      return acc + v * v;
    case XRT_REDUCE_L1:
      return acc + fabsf(v);
    default:
      return acc + v;
  }
}

typedef struct reduce_job {
  const xrt_k_reduce* p;
  const float* x;
  float* y;
} reduce_job;

static void reduce_one(void* argument, int32_t index) {
  const reduce_job* j = (const reduce_job*)argument;
  const xrt_k_reduce* p = j->p;
  const float* x = j->x;
  int32_t rest = index, count = 1;
  for (int d = 3; d >= 0; --d) {
    x += (int64_t)(rest % p->kept[d]) * p->kept_strides[d];
    rest /= p->kept[d];
    count *= p->reduced[d];
  }
  float acc = start(p->kind);
  for (int32_t a = 0; a < p->reduced[0]; ++a)
    for (int32_t b = 0; b < p->reduced[1]; ++b)
      for (int32_t c = 0; c < p->reduced[2]; ++c) {
        const float* line = x + (int64_t)a * p->reduced_strides[0] +
                            (int64_t)b * p->reduced_strides[1] + (int64_t)c * p->reduced_strides[2];
        for (int32_t first = 0; first < p->reduced[3]; first += 32) {
          const int32_t end = p->reduced[3] - first < 32 ? p->reduced[3] : first + 32;
          float part = start(p->kind); /* a sum of sums loses less */
          for (int32_t i = first; i < end; ++i)
            part = step(p->kind, part, line[(int64_t)i * p->reduced_strides[3]]);
          acc = p->kind == XRT_REDUCE_SUM_SQUARE || p->kind == XRT_REDUCE_L2
                    ? acc + part
                    : step(p->kind, acc, part);
        }
      }
  if (p->kind == XRT_REDUCE_MEAN) acc /= (float)count;
  if (p->kind == XRT_REDUCE_L2) acc = sqrtf(acc);
  j->y[index] = acc;
}

#define LINE 32

/* Sums or means of LINE neighbours at once, each as reduce_one() adds it. */
static void sum_line(void* argument, int32_t index) {
  const reduce_job* j = (const reduce_job*)argument;
  const xrt_k_reduce* p = j->p;
  const int32_t k = index * LINE, most = p->kept[3] - k, width = most < LINE ? most : LINE;
  float sums[LINE] = {0};
  for (int32_t a = 0; a < p->reduced[0]; ++a)
    for (int32_t b = 0; b < p->reduced[1]; ++b)
      for (int32_t c = 0; c < p->reduced[2]; ++c) {
        const float* x = j->x + k + (int64_t)a * p->reduced_strides[0] +
                         (int64_t)b * p->reduced_strides[1] + (int64_t)c * p->reduced_strides[2];
        for (int32_t first = 0; first < p->reduced[3]; first += 32) {
          const int32_t end = p->reduced[3] - first < 32 ? p->reduced[3] : first + 32;
          float part[LINE] = {0};
          for (int32_t i = first; i < end; ++i) {
            const float* line = x + (int64_t)i * p->reduced_strides[3];
            if (width == LINE)
              for (int32_t l = 0; l < LINE; ++l) part[l] += line[l];
            else
              for (int32_t l = 0; l < width; ++l) part[l] += line[l];
          }
          for (int32_t l = 0; l < LINE; ++l) sums[l] += part[l];
        }
      }
  const int32_t count = p->reduced[0] * p->reduced[1] * p->reduced[2] * p->reduced[3];
  for (int32_t l = 0; l < width; ++l)
    j->y[k + l] = p->kind == XRT_REDUCE_MEAN ? sums[l] / (float)count : sums[l];
}

xrt_lite_status xrt_generic_reduce(const xrt_kernel_call* call) {
  reduce_job j = {(const xrt_k_reduce*)call->params, (const float*)call->operands[0],
                  (float*)call->operands[1]};
  const xrt_k_reduce* p = j.p;
  if ((p->kind == XRT_REDUCE_SUM || p->kind == XRT_REDUCE_MEAN) && p->kept[3] >= LINE &&
      p->kept_strides[3] == 1 && p->kept[0] == 1 && p->kept[1] == 1 && p->kept[2] == 1) {
    xrt_parallel(call, (p->kept[3] - 1) / LINE + 1, sum_line, &j);
    return XRT_LITE_OK;
  }
  int32_t count = 1;
  for (int d = 0; d < 4; ++d) count *= j.p->kept[d];
  for (int32_t i = 0; i < count; ++i) reduce_one(&j, i);
  return XRT_LITE_OK;
}

#define PART 64 /* a sum of sums loses less */
#define LANES 8

/* Sum of exp(x - top) over at most PART elements, which y gets, if it is not null. */
static float sum_of_exps(const float* x, float* y, int64_t stride, int32_t count, float top) {
  float e[PART], lanes[LANES] = {0}, sum = 0;
  for (int32_t i = 0; i < count; ++i) e[i] = x[i * stride] - top;
  for (int32_t i = 0; i < count; ++i) e[i] = xrt_exp(e[i]);
  int32_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int32_t j = 0; j < LANES; ++j) lanes[j] += e[i + j];
  for (; i < count; ++i) lanes[i % LANES] += e[i];
  for (int32_t j = 0; j < LANES; ++j) sum += lanes[j];
  for (i = 0; y != NULL && i < count; ++i) y[i * stride] = e[i];
  return sum;
}

xrt_lite_status xrt_generic_softmax(const xrt_kernel_call* call) {
  const xrt_k_softmax* p = (const xrt_k_softmax*)call->params;
  const int64_t s = p->inner;
  for (int32_t o = 0; o < p->outer; ++o)
    for (int32_t in = 0; in < p->inner; ++in) {
      const int64_t at = (int64_t)o * p->size * p->inner + in;
      const float* x = (const float*)call->operands[0] + at;
      float* y = (float*)call->operands[1] + at;
      float top = -INFINITY, sum = 0;
      for (int32_t i = 0; i < p->size; ++i) top = x[i * s] > top ? x[i * s] : top;
      for (int32_t first = 0; first < p->size; first += PART) {
        const int32_t count = p->size - first < PART ? p->size - first : PART;
        sum += sum_of_exps(x + first * s, p->log ? NULL : y + first * s, s, count, top);
      }
      const float factor = p->log ? logf(sum) : 1.0f / sum;
      for (int32_t i = 0; i < p->size; ++i)
        y[i * s] = p->log ? x[i * s] - top - factor : y[i * s] * factor;
    }
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_norm(const xrt_kernel_call* call) {
  const xrt_k_norm* p = (const xrt_k_norm*)call->params;
  const float* scale = (const float*)call->operands[1];
  const float* bias = p->flags & XRT_HAS_BIAS ? (const float*)call->operands[2] : NULL;
  float* out = (float*)call->operands[bias ? 3 : 2];
  for (int32_t o = 0; o < p->outer; ++o) {
    const float* x = (const float*)call->operands[0] + (int64_t)o * p->size;
    float* y = out + (int64_t)o * p->size;
    float mean = 0, variance = 0;
    for (int32_t i = 0; i < p->size; ++i) mean += x[i];
    mean /= (float)p->size;
    for (int32_t i = 0; i < p->size; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const float factor = 1.0f / sqrtf(variance / (float)p->size + p->epsilon);
    for (int32_t i = 0; i < p->size; ++i)
      y[i] = (x[i] - mean) * factor * scale[i] + (bias ? bias[i] : 0.0f);
  }
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_arg(const xrt_kernel_call* call) {
  const xrt_k_arg* p = (const xrt_k_arg*)call->params;
  for (int32_t o = 0; o < p->outer; ++o)
    for (int32_t in = 0; in < p->inner; ++in) {
      const float* x = (const float*)call->operands[0] + (int64_t)o * p->size * p->inner + in;
      int32_t best = 0;
      for (int32_t i = 1; i < p->size; ++i) {
        const float v = x[(int64_t)i * p->inner], b = x[(int64_t)best * p->inner];
        if (p->minimum ? v < b : v > b) best = i;
      }
      ((int64_t*)call->operands[1])[(int64_t)o * p->inner + in] = best;
    }
  return XRT_LITE_OK;
}

static float source(int32_t i, float scale, int32_t half_pixel, int32_t size) {
  const float shift = half_pixel ? 0.5f : 0.0f;
  float at = ((float)i + shift) * scale - shift;
  if (!(at > 0)) at = 0;
  return at < (float)(size - 1) ? at : (float)(size - 1);
}

xrt_lite_status xrt_generic_resize(const xrt_kernel_call* call) {
  const xrt_k_resize* p = (const xrt_k_resize*)call->params;
  float* y = (float*)call->operands[1];
  for (int32_t n = 0; n < p->n; ++n) {
    const float* x = (const float*)call->operands[0] + (int64_t)n * p->ih * p->iw * p->c;
    for (int32_t oy = 0; oy < p->oh; ++oy) {
      const float fy = source(oy, p->scale_h, p->half_pixel, p->ih);
      for (int32_t ox = 0; ox < p->ow; ++ox, y += p->c) {
        const float fx = source(ox, p->scale_w, p->half_pixel, p->iw);
        const int32_t y0 = (int32_t)fy, x0 = (int32_t)fx;
        const float* a = x + ((int64_t)y0 * p->iw + x0) * p->c;
        if (!p->linear) {
          memcpy(y, a, (size_t)p->c * sizeof(float));
          continue;
        }
        const int64_t right = x0 + 1 < p->iw ? p->c : 0;
        const int64_t down = y0 + 1 < p->ih ? (int64_t)p->iw * p->c : 0;
        const float wy = fy - (float)y0, wx = fx - (float)x0;
        for (int32_t c = 0; c < p->c; ++c) {
          const float top = a[c] + (a[c + right] - a[c]) * wx;
          const float low = a[c + down] + (a[c + down + right] - a[c + down]) * wx;
          y[c] = top + (low - top) * wy;
        }
      }
    }
  }
  return XRT_LITE_OK;
}
