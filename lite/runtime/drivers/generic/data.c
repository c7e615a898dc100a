/* SPDX-License-Identifier: Apache-2.0
 * Moving elements: strided copies, filling, looking up. */
#include "generic.h"

static void copy_line(uint8_t* y, const uint8_t* x, int32_t count, int64_t ys, int64_t xs,
                      int32_t bytes) {
  if (ys == 1 && xs == 1) {
    memmove(y, x, (size_t)count * (size_t)bytes);
    return;
  }
  ys *= bytes;
  xs *= bytes;
  switch (bytes) {
    case 1:
      for (int32_t i = 0; i < count; ++i) y[i * ys] = x[i * xs];
      break;
    case 2:
      for (int32_t i = 0; i < count; ++i) memcpy(y + i * ys, x + i * xs, 2);
      break;
    case 4:
      for (int32_t i = 0; i < count; ++i) memcpy(y + i * ys, x + i * xs, 4);
      break;
    default:
      for (int32_t i = 0; i < count; ++i) memcpy(y + i * ys, x + i * xs, 8);
      break;
  }
}

#define PLANE_BYTES 4096 /* of the inner lines that stay in the first cache */

/* The two innermost dimensions: lines along the longer one where neither lies side by side. */
static void copy_plane(uint8_t* y, const uint8_t* x, const int32_t* n, const int32_t* ys,
                       const int32_t* xs, int32_t bytes) {
  if ((ys[1] == 1 && xs[1] == 1) || n[1] >= n[0]) {
    for (int32_t i = 0; i < n[0]; ++i)
      copy_line(y + (int64_t)i * ys[0] * bytes, x + (int64_t)i * xs[0] * bytes, n[1], ys[1], xs[1],
                bytes);
    return;
  }
  const int32_t step = PLANE_BYTES / bytes;
  for (int32_t first = 0; first < n[0]; first += step) {
    const int32_t count = n[0] - first < step ? n[0] - first : step;
    for (int32_t i = 0; i < n[1]; ++i)
      copy_line(y + ((int64_t)first * ys[0] + (int64_t)i * ys[1]) * bytes,
                x + ((int64_t)first * xs[0] + (int64_t)i * xs[1]) * bytes, count, ys[0], xs[0],
                bytes);
  }
}

typedef struct copy_job {
  const xrt_k_copy* p;
  const uint8_t* x;
  uint8_t* y;
  int32_t each; /* of the outermost dimension, in a task */
} copy_job;

static void copy_part(void* argument, int32_t task) {
  const copy_job* j = (const copy_job*)argument;
  const xrt_k_copy* p = j->p;
  const int32_t bytes = p->element_bytes, rank = p->rank, first = task * j->each;
  int32_t dims[XRT_LITE_MAX_RANK + 1] = {1, 1}, index[XRT_LITE_MAX_RANK] = {0};
  int32_t xs[XRT_LITE_MAX_RANK + 1] = {0}, ys[XRT_LITE_MAX_RANK + 1] = {0};
  const int32_t shift = rank < 2 ? 2 - rank : 0, last = rank + shift - 2;
  for (int32_t d = 0; d < rank; ++d) {
    dims[d + shift] = p->dims[d];
    xs[d + shift] = p->x_strides[d];
    ys[d + shift] = p->y_strides[d];
  }
  const uint8_t* x = j->x + (int64_t)first * p->x_strides[0] * bytes;
  uint8_t* y = j->y + (int64_t)first * p->y_strides[0] * bytes;
  if (dims[shift] - first < j->each)
    dims[shift] -= first;
  else
    dims[shift] = j->each;
  for (;;) {
    copy_plane(y, x, dims + last, ys + last, xs + last, bytes);
    int32_t d = last - 1;
    for (; d >= 0; --d) {
      x += (int64_t)xs[d] * bytes;
      y += (int64_t)ys[d] * bytes;
      if (++index[d] < dims[d]) break;
      x -= (int64_t)xs[d] * dims[d] * bytes;
      y -= (int64_t)ys[d] * dims[d] * bytes;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

xrt_lite_status xrt_generic_copy(const xrt_kernel_call* call) {
  const xrt_k_copy* p = (const xrt_k_copy*)call->params;
  const int32_t bytes = p->element_bytes;
  copy_job j = {p, (const uint8_t*)call->operands[0] + (int64_t)p->x_offset * bytes,
                (uint8_t*)call->operands[1] + (int64_t)p->y_offset * bytes, 1};
  if (p->rank == 0) {
    memcpy(j.y, j.x, (size_t)bytes);
    return XRT_LITE_OK;
  }
  int64_t count = 1;
  for (int32_t d = 0; d < p->rank; ++d) count *= p->dims[d];
  const int32_t tasks = call->threads != NULL && count * bytes > 32768 ? call->threads->count : 1;
  j.each = (p->dims[0] - 1) / tasks + 1;
  xrt_parallel(call, (p->dims[0] - 1) / j.each + 1, copy_part, &j);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_fill(const xrt_kernel_call* call) {
  const xrt_k_fill* p = (const xrt_k_fill*)call->params;
  uint8_t* y = (uint8_t*)call->operands[0];
  const uint64_t bits = (uint64_t)p->high << 32 | p->low;
  for (int32_t i = 0; i < p->count; ++i, y += p->element_bytes)
    memcpy(y, &bits, (size_t)p->element_bytes); /* little-endian: the low bytes come first */
  return XRT_LITE_OK;
}

xrt_lite_status xrt_generic_gather(const xrt_kernel_call* call) {
  const xrt_k_gather* p = (const xrt_k_gather*)call->params;
  const uint8_t* x = (const uint8_t*)call->operands[0];
  uint8_t* y = (uint8_t*)call->operands[2];
  const size_t line = (size_t)p->inner * (size_t)p->element_bytes;
  for (int32_t i = 0; i < p->count; ++i) {
    int64_t at = p->index_dtype == XRT_LITE_I32 ? ((const int32_t*)call->operands[1])[i]
                                                : ((const int64_t*)call->operands[1])[i];
    if (at < 0) at += p->size;
    if (at < 0 || at >= p->size) return XRT_LITE_OUT_OF_RANGE;
    for (int32_t o = 0; o < p->outer; ++o)
      memcpy(y + ((size_t)o * (size_t)p->count + (size_t)i) * line,
             x + ((size_t)o * (size_t)p->size + (size_t)at) * line, line);
  }
  return XRT_LITE_OK;
}
