/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution: a row of pixels at a time, those at the borders one by one. */
#include "panels.h"

#define MAX_TAPS 128

typedef struct depthwise_job {
  const xrt_k_conv* p;
  const xrt_tile_isa* isa;
  const uint8_t* x;
  const void* w;
  const float* scale;
  const void* bias;
  const uint8_t* r;
  uint8_t* y;
  int q8;
  int32_t element, rows, rows_per_task;
} depthwise_job;

/* Pixels [ox, ox + count) of a row, whose taps lie all inside or all outside alike. */
static void pixels(const depthwise_job* j, int32_t row, int32_t ox, int32_t count) {
  const xrt_k_conv* p = j->p;
  const int32_t n = row / p->oh, oy = row % p->oh;
  const uint8_t* taps[MAX_TAPS];
  int32_t index[MAX_TAPS], found = 0;
  for (int32_t ky = 0; ky < p->kh; ++ky) {
    const int32_t iy = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
    if (iy < 0 || iy >= p->ih) continue;
    for (int32_t kx = 0; kx < p->kw; ++kx) {
      const int32_t ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
      if (ix < 0 || ix >= p->iw) continue;
      taps[found] = j->x + (((int64_t)n * p->ih + iy) * p->iw + ix) * p->x_pitch * j->element;
      index[found++] = ky * p->kw + kx;
    }
  }
  const int64_t at = (int64_t)row * p->ow + ox;
  xrt_tile_depthwise work = {0};
  work.taps = taps;
  work.w = j->w;
  work.w_index = index;
  work.tap_count = found;
  work.channels = p->oc;
  work.count = count;
  work.x_step = (int64_t)p->stride_w * p->x_pitch * j->element;
  work.y_step = (int64_t)p->y_pitch * j->element;
  work.r_step = (int64_t)p->r_pitch * j->element;
  work.x_signed = p->x_dtype == XRT_LITE_I8;
  work.finish.channels = p->oc;
  work.finish.alpha = 1.0f;
  work.finish.bias = j->bias;
  work.finish.scale = j->scale;
  work.finish.x_zero = p->x_zero;
  work.finish.r = j->r ? j->r + at * work.r_step : NULL;
  work.finish.y = j->y + at * work.y_step;
  work.finish.clip = p->activation == XRT_ACT_CLIP;
  work.finish.lo = p->lo;
  work.finish.hi = p->hi;
  work.finish.r_dtype = p->r_dtype;
  work.finish.r_zero = p->r_zero;
  work.finish.r_scale = p->r_scale;
  work.finish.y_dtype = p->y_dtype;
  work.finish.y_zero = p->y_zero;
  if (j->q8)
    j->isa->depthwise_q8(&work);
  else
    j->isa->depthwise_f32(&work);
}

/* Rounds up, also below zero. */
static int32_t divide_up(int32_t a, int32_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

static void depthwise_row(const depthwise_job* j, int32_t row) {
  const xrt_k_conv* p = j->p;
  /* The pixels whose first tap is at 0 or after and whose last is before iw. */
  int32_t begin = divide_up(p->pad_left, p->stride_w);
  int32_t end = divide_up(p->iw + p->pad_left - (p->kw - 1) * p->dilation_w, p->stride_w);
  if (begin < 0) begin = 0;
  if (begin > p->ow) begin = p->ow;
  if (end > p->ow) end = p->ow;
  if (end < begin) end = begin;
  for (int32_t ox = 0; ox < begin; ++ox) pixels(j, row, ox, 1);
  if (end > begin) pixels(j, row, begin, end - begin);
  for (int32_t ox = end; ox < p->ow; ++ox) pixels(j, row, ox, 1);
}

/* Neighbouring rows read the same rows of the input: a task is several of them. */
static void depthwise_rows(void* argument, int32_t task) {
  const depthwise_job* j = (const depthwise_job*)argument;
  const int32_t begin = task * j->rows_per_task;
  for (int32_t row = begin; row < begin + j->rows_per_task && row < j->rows; ++row)
    depthwise_row(j, row);
}

static xrt_lite_status depthwise(const xrt_kernel_call* call, const xrt_tile_isa* isa, int q8) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  /* Rare; the factors lie alike for both drivers. */
  if (p->kh * p->kw > MAX_TAPS || p->weight_dtype == XRT_LITE_F16)
    return q8 ? xrt_generic_dwconv_q8(call) : xrt_generic_dwconv_f32(call);
  depthwise_job j = {.p = p,
                     .isa = isa,
                     .x = (const uint8_t*)call->operands[0],
                     .w = call->operands[1],
                     .q8 = q8,
                     .element = q8 ? 1 : 4};
  int next = 2;
  if (q8) j.scale = (const float*)call->operands[next++];
  if (p->flags & XRT_HAS_BIAS) j.bias = call->operands[next++];
  if (p->flags & XRT_HAS_RESIDUAL) j.r = (const uint8_t*)call->operands[next++];
  j.y = (uint8_t*)call->operands[next];
  const int32_t tasks = 4 * (call->threads ? call->threads->count : 1);
  j.rows = p->n * p->oh;
  j.rows_per_task = (j.rows + tasks - 1) / tasks;
  if (j.rows > 0)
    xrt_parallel(call, (j.rows + j.rows_per_task - 1) / j.rows_per_task, depthwise_rows, &j);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_tile_depthwise_conv(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  return depthwise(call, isa, 0);
}

xrt_lite_status xrt_tile_depthwise_conv_q8(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  return depthwise(call, isa, 1);
}
