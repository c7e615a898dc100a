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
  for (int32_t i = 0; i < count; ++i, y += ys, x += xs) {
    switch (bytes) {
      case 1:
        *y = *x;
        break;
      case 2:
        memcpy(y, x, 2);
        break;
      case 4:
        memcpy(y, x, 4);
        break;
      default:
        memcpy(y, x, 8);
        break;
    }
  }
}

xrt_lite_status xrt_generic_copy(const xrt_kernel_call* call) {
  const xrt_k_copy* p = (const xrt_k_copy*)call->params;
  const int32_t bytes = p->element_bytes, last = p->rank - 1;
  const uint8_t* x = (const uint8_t*)call->operands[0] + (int64_t)p->x_offset * bytes;
  uint8_t* y = (uint8_t*)call->operands[1] + (int64_t)p->y_offset * bytes;
  if (p->rank == 0) {
    memcpy(y, x, (size_t)bytes);
    return XRT_LITE_OK;
  }
  int32_t index[XRT_LITE_MAX_RANK] = {0};
  for (;;) {
    copy_line(y, x, p->dims[last], p->y_strides[last], p->x_strides[last], bytes);
    int32_t d = last - 1;
    for (; d >= 0; --d) {
      x += (int64_t)p->x_strides[d] * bytes;
      y += (int64_t)p->y_strides[d] * bytes;
      if (++index[d] < p->dims[d]) break;
      x -= (int64_t)p->x_strides[d] * p->dims[d] * bytes;
      y -= (int64_t)p->y_strides[d] * p->dims[d] * bytes;
      index[d] = 0;
    }
    if (d < 0) return XRT_LITE_OK;
  }
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
