/* SPDX-License-Identifier: Apache-2.0
 * Pointwise programs: BLOCK elements of one row at a time through all instructions. */
#include <math.h>

#include "generic.h"
#include "vector_math.h"

#ifndef XRT_EW_BLOCK
#define XRT_EW_BLOCK 64
#endif
#define TASK 8192 /* elements */

typedef union value_block {
  float f[XRT_EW_BLOCK];
  int64_t i[XRT_EW_BLOCK];
} value_block;

typedef struct ew_job {
  const xrt_k_ew* p;
  const xrt_ew_input* in;
  const uint32_t* code;
  void* const* operands;
  int64_t count;
} ew_job;

static float load_float(const void* x, int64_t i, int32_t dtype) {
  switch (dtype) {
    case XRT_LITE_F32:
      return ((const float*)x)[i];
    case XRT_LITE_F16:
      return xrt_half_to_float(((const uint16_t*)x)[i]);
    case XRT_LITE_I8:
      return ((const int8_t*)x)[i];
    case XRT_LITE_I32:
      return (float)((const int32_t*)x)[i];
    case XRT_LITE_I64:
      return (float)((const int64_t*)x)[i];
    default:
      return ((const uint8_t*)x)[i];
  }
}

static int64_t float_to_i64(float v) {
  if (!(v > -9.2e18f)) return v < 0 ? INT64_MIN : 0; /* below, or NaN */
  if (!(v < 9.2e18f)) return INT64_MAX;
  return (int64_t)v;
}

static int64_t load_int(const void* x, int64_t i, int32_t dtype) {
  switch (dtype) {
    case XRT_LITE_F32:
      return float_to_i64(((const float*)x)[i]);
    case XRT_LITE_F16:
      return float_to_i64(xrt_half_to_float(((const uint16_t*)x)[i]));
    case XRT_LITE_I8:
      return ((const int8_t*)x)[i];
    case XRT_LITE_I32:
      return ((const int32_t*)x)[i];
    case XRT_LITE_I64:
      return ((const int64_t*)x)[i];
    default:
      return ((const uint8_t*)x)[i];
  }
}

static void load(value_block* to, const void* x, int64_t at, int64_t stride, int32_t dtype,
                 int32_t domain, int32_t count) {
  if (domain == 1) {
    for (int32_t i = 0; i < count; ++i) to->i[i] = load_int(x, at + i * stride, dtype);
  } else if (stride == 0) {
    const float v = load_float(x, at, dtype);
    for (int32_t i = 0; i < count; ++i) to->f[i] = v;
  } else if (dtype == XRT_LITE_F32 && stride == 1) {
    memcpy(to->f, (const float*)x + at, (size_t)count * sizeof(float));
  } else if (dtype == XRT_LITE_F32) {
    const float* f = (const float*)x + at;
    for (int32_t i = 0; i < count; ++i) to->f[i] = f[i * stride];
  } else if (dtype == XRT_LITE_U8 && stride == 1) {
    const uint8_t* u = (const uint8_t*)x + at;
    for (int32_t i = 0; i < count; ++i) to->f[i] = u[i];
  } else if (dtype == XRT_LITE_I8 && stride == 1) {
    const int8_t* s = (const int8_t*)x + at;
    for (int32_t i = 0; i < count; ++i) to->f[i] = s[i];
  } else {
    for (int32_t i = 0; i < count; ++i) to->f[i] = load_float(x, at + i * stride, dtype);
  }
}

static void store(void* y, int64_t at, const value_block* from, int32_t dtype, int32_t domain,
                  int32_t count) {
  if (domain == 0 && (dtype == XRT_LITE_U8 || dtype == XRT_LITE_I8)) {
    uint8_t* u = (uint8_t*)y + at;
    for (int32_t i = 0; i < count; ++i) u[i] = (uint8_t)xrt_to_q8(from->f[i], 0, dtype);
    return;
  }
  if (domain == 0 && dtype == XRT_LITE_F32) {
    memcpy((float*)y + at, from->f, (size_t)count * sizeof(float));
    return;
  }
  for (int32_t i = 0; i < count; ++i) {
    const float f = domain == 1 ? (float)from->i[i] : from->f[i];
    switch (dtype) {
      case XRT_LITE_F32:
        ((float*)y)[at + i] = f;
        break;
      case XRT_LITE_F16:
        ((uint16_t*)y)[at + i] = xrt_float_to_half(f);
        break;
      case XRT_LITE_U8:
      case XRT_LITE_I8:
        ((uint8_t*)y)[at + i] = (uint8_t)xrt_to_q8(f, 0, dtype);
        break;
      case XRT_LITE_I32: {
        const int64_t v = domain == 1 ? from->i[i] : float_to_i64(f);
        ((int32_t*)y)[at + i] = (int32_t)(uint32_t)(uint64_t)v;
        break;
      }
      case XRT_LITE_I64:
        ((int64_t*)y)[at + i] = domain == 1 ? from->i[i] : float_to_i64(f);
        break;
      default:
        ((uint8_t*)y)[at + i] = domain == 1 ? from->i[i] != 0 : f != 0;
        break;
    }
  }
}

#define EACH(expression)                                 \
  for (int32_t i = 0; i < count; ++i) d[i] = expression; \
  break

static void apply_float(uint32_t op, float* d, const float* a, const float* b, int32_t count) {
  switch (op) {
    case XRT_EW_ADD:
      EACH(a[i] + b[i]);
    case XRT_EW_SUB:
      EACH(a[i] - b[i]);
    case XRT_EW_MUL:
      EACH(a[i] * b[i]);
    case XRT_EW_DIV:
      EACH(a[i] / b[i]);
    case XRT_EW_MIN:
      EACH(a[i] < b[i] || a[i] != a[i] ? a[i] : b[i]);
    case XRT_EW_MAX:
      EACH(a[i] > b[i] || a[i] != a[i] ? a[i] : b[i]);
    case XRT_EW_POW:
      EACH(powf(a[i], b[i]));
    case XRT_EW_EQ:
      EACH(a[i] == b[i] ? 1.0f : 0.0f);
    case XRT_EW_LT:
      EACH(a[i] < b[i] ? 1.0f : 0.0f);
    case XRT_EW_LE:
      EACH(a[i] <= b[i] ? 1.0f : 0.0f);
    case XRT_EW_AND:
      EACH(a[i] != 0 && b[i] != 0 ? 1.0f : 0.0f);
    case XRT_EW_OR:
      EACH(a[i] != 0 || b[i] != 0 ? 1.0f : 0.0f);
    case XRT_EW_SELECT:
      EACH(d[i] != 0 ? a[i] : b[i]);
    case XRT_EW_NOT:
      EACH(a[i] == 0 ? 1.0f : 0.0f);
    case XRT_EW_NEG:
      EACH(-a[i]);
    case XRT_EW_ABS:
      EACH(fabsf(a[i]));
    case XRT_EW_SQRT:
      EACH(sqrtf(a[i]));
    case XRT_EW_EXP:
      EACH(xrt_exp(a[i]));
    case XRT_EW_LOG:
      EACH(logf(a[i]));
    case XRT_EW_TANH:
      EACH(xrt_tanh(a[i]));
    case XRT_EW_SIGMOID:
      EACH(xrt_sigmoid(a[i]));
    case XRT_EW_ERF:
      EACH(xrt_erf(a[i]));
    case XRT_EW_FLOOR:
      EACH(floorf(a[i]));
    case XRT_EW_CEIL:
      EACH(ceilf(a[i]));
    case XRT_EW_ROUND:
      EACH(fabsf(a[i]) < 4194304.0f ? xrt_round_half_even(a[i]) : a[i]);
    case XRT_EW_SIN:
      EACH(sinf(a[i]));
    case XRT_EW_COS:
      EACH(cosf(a[i]));
    case XRT_EW_SIGN:
      EACH((float)((a[i] > 0) - (a[i] < 0)));
    case XRT_EW_TRUNC:
      EACH(truncf(a[i]));
    default:
      break;
  }
}

static int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static void apply_int(uint32_t op, int64_t* d, const int64_t* a, const int64_t* b, int32_t count) {
  switch (op) {
    case XRT_EW_ADD:
      EACH((int64_t)((uint64_t)a[i] + (uint64_t)b[i]));
    case XRT_EW_SUB:
      EACH((int64_t)((uint64_t)a[i] - (uint64_t)b[i]));
    case XRT_EW_MUL:
      EACH((int64_t)((uint64_t)a[i] * (uint64_t)b[i]));
    case XRT_EW_DIV:
      EACH(divide(a[i], b[i]));
    case XRT_EW_MIN:
      EACH(a[i] < b[i] ? a[i] : b[i]);
    case XRT_EW_MAX:
      EACH(a[i] > b[i] ? a[i] : b[i]);
    case XRT_EW_EQ:
      EACH(a[i] == b[i]);
    case XRT_EW_LT:
      EACH(a[i] < b[i]);
    case XRT_EW_LE:
      EACH(a[i] <= b[i]);
    case XRT_EW_AND:
      EACH(a[i] != 0 && b[i] != 0);
    case XRT_EW_OR:
      EACH(a[i] != 0 || b[i] != 0);
    case XRT_EW_SELECT:
      EACH(d[i] != 0 ? a[i] : b[i]);
    case XRT_EW_NOT:
      EACH(a[i] == 0);
    case XRT_EW_NEG:
      EACH((int64_t)(0 - (uint64_t)a[i]));
    case XRT_EW_ABS:
      EACH(a[i] < 0 ? (int64_t)(0 - (uint64_t)a[i]) : a[i]);
    default:
      break;
  }
}

static void fill(value_block* to, uint32_t bits, int32_t domain, int32_t count) {
  float f;
  memcpy(&f, &bits, 4);
  for (int32_t i = 0; i < count; ++i) {
    if (domain == 1)
      to->i[i] = (int32_t)bits;
    else
      to->f[i] = f;
  }
}

/* Fills registers that hold a constant and nothing else, for all blocks; a bit for each of them. */
static uint32_t fill_constants(const ew_job* j, value_block* r) {
  const xrt_k_ew* p = j->p;
  uint32_t written = (1u << p->inputs) - 1u, again = 0, filled = 0;
  for (int32_t pc = 0; pc < p->code_words; ++pc) {
    const uint32_t bit = 1u << ((j->code[pc] >> 8) & 255);
    again |= written & bit;
    written |= bit;
    if ((j->code[pc] & 255) == XRT_EW_CONST) ++pc;
  }
  for (int32_t pc = 0; pc < p->code_words; ++pc) {
    const uint32_t d = (j->code[pc] >> 8) & 255;
    if ((j->code[pc] & 255) != XRT_EW_CONST) continue;
    ++pc;
    if (again & (1u << d)) continue;
    fill(&r[d], j->code[pc], p->domain, XRT_EW_BLOCK);
    filled |= 1u << d;
  }
  return filled;
}

static void run_code(const ew_job* j, value_block* r, uint32_t filled, int32_t count) {
  const xrt_k_ew* p = j->p;
  for (int32_t pc = 0; pc < p->code_words; ++pc) {
    const uint32_t w = j->code[pc], op = w & 255, d = (w >> 8) & 255, a = (w >> 16) & 255,
                   b = w >> 24;
    if (op == XRT_EW_CONST) {
      ++pc;
      if (!(filled & (1u << d))) fill(&r[d], j->code[pc], p->domain, count);
    } else if (p->domain == 1) {
      apply_int(op, r[d].i, r[a].i, r[b].i, count);
    } else {
      apply_float(op, r[d].f, r[a].f, r[b].f, count);
    }
  }
}

static void ew_task(void* argument, int32_t task) {
  const ew_job* j = (const ew_job*)argument;
  const xrt_k_ew* p = j->p;
  value_block r[XRT_EW_REGISTERS];
  const int32_t row = p->dims[XRT_EW_MAX_RANK - 1];
  int64_t at = (int64_t)task * TASK;
  const int64_t end = at + TASK < j->count ? at + TASK : j->count;
  const uint32_t filled = end - at > XRT_EW_BLOCK ? fill_constants(j, r) : 0;
  while (at < end) {
    int64_t rest = at, offset[XRT_EW_MAX_INPUTS] = {0};
    int32_t inner = 0;
    for (int d = XRT_EW_MAX_RANK - 1; d >= 0; --d) {
      const int64_t index = rest % p->dims[d];
      rest /= p->dims[d];
      if (d == XRT_EW_MAX_RANK - 1) inner = (int32_t)index;
      for (int32_t k = 0; k < p->inputs; ++k) offset[k] += index * j->in[k].strides[d];
    }
    int64_t left = row - inner;
    if (left > end - at) left = end - at;
    while (left > 0) {
      const int32_t count = left < XRT_EW_BLOCK ? (int32_t)left : XRT_EW_BLOCK;
      for (int32_t k = 0; k < p->inputs; ++k) {
        const int64_t stride = j->in[k].strides[XRT_EW_MAX_RANK - 1];
        load(&r[k], j->operands[k], offset[k], stride, j->in[k].dtype, p->domain, count);
        offset[k] += stride * count;
      }
      run_code(j, r, filled, count);
      store(j->operands[p->inputs], at, &r[p->result], p->y_dtype, p->domain, count);
      at += count;
      left -= count;
    }
  }
}

xrt_lite_status xrt_generic_ew(const xrt_kernel_call* call) {
  const xrt_k_ew* p = (const xrt_k_ew*)call->params;
  const xrt_ew_input* in = (const xrt_ew_input*)(p + 1);
  ew_job j = {p, in, (const uint32_t*)(in + p->inputs), call->operands, 1};
  for (int d = 0; d < XRT_EW_MAX_RANK; ++d) j.count *= p->dims[d];
  xrt_parallel(call, (int32_t)((j.count + TASK - 1) / TASK), ew_task, &j);
  return XRT_LITE_OK;
}
