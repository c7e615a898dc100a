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

/* What becomes of the sums, from the output's pixel `at` on. */
static xrt_tile_finish finish_of(const depthwise_job* j, int64_t at) {
  const xrt_k_conv* p = j->p;
  xrt_tile_finish f = {0};
  f.channels = p->oc;
  f.alpha = 1.0f;
  f.bias = j->bias;
  f.scale = j->scale;
  f.x_zero = p->x_zero;
  f.r_row = (int64_t)p->r_pitch * j->element;
  f.y_row = (int64_t)p->y_pitch * j->element;
  f.r = j->r ? j->r + at * f.r_row : NULL;
  f.y = j->y + at * f.y_row;
  f.clip = p->activation == XRT_ACT_CLIP;
  f.lo = p->lo;
  f.hi = p->hi;
  f.r_dtype = p->r_dtype;
  f.r_zero = p->r_zero;
  f.r_scale = p->r_scale;
  f.y_dtype = p->y_dtype;
  f.y_zero = p->y_zero;
  return f;
}

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
  work.finish = finish_of(j, at);
  if (j->q8)
    j->isa->depthwise_q8(&work);
  else
    j->isa->depthwise_f32(&work);
}

/* Rounds up, also below zero. */
static int32_t divide_up(int32_t a, int32_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/* The common windows: a row at once. */
static int is_common(const depthwise_job* j) {
  const xrt_k_conv* p = j->p;
  return !j->q8 && j->isa->depthwise_row_f32 && p->kh == p->kw && (p->kw == 3 || p->kw == 5) &&
         p->dilation_h == 1 && p->dilation_w == 1 && (p->stride_w == 1 || p->stride_w == 2);
}

static void common_row(const depthwise_job* j, int32_t row) {
  const xrt_k_conv* p = j->p;
  const int32_t n = row / p->oh, oy = row % p->oh;
  xrt_tile_depthwise_row work = {0};
  work.x_step = (int64_t)p->x_pitch * 4;
  for (int32_t ky = 0; ky < p->kh; ++ky) {
    const int32_t iy = oy * p->stride_h - p->pad_top + ky;
    if (iy >= 0 && iy < p->ih)
      work.rows[ky] = j->x + ((int64_t)n * p->ih + iy) * p->iw * work.x_step;
  }
  work.w = (const float*)j->w;
  work.size = p->kw;
  work.stride = p->stride_w;
  work.channels = p->oc;
  work.count = p->ow;
  work.iw = p->iw;
  work.x_first = -p->pad_left;
  work.finish = finish_of(j, (int64_t)row * p->ow);
  j->isa->depthwise_row_f32(&work);
}

static void depthwise_row(const depthwise_job* j, int32_t row) {
  const xrt_k_conv* p = j->p;
  if (is_common(j)) {
    common_row(j, row);
    return;
  }
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

/* Whether the instruction set takes this one in int8 as a whole. */
static int is_common_q8(const depthwise_job* j) {
  const xrt_k_conv* p = j->p;
  return j->q8 && j->isa->depthwise_rows_q8 && j->r == NULL && p->kh <= 4 && p->kw == 3 &&
         p->dilation_h == 1 && p->dilation_w == 1 && p->stride_w <= 2;
}

/* Neighbouring rows read the same rows of the input: a task is several of them. */
static void depthwise_rows(void* argument, int32_t task) {
  const depthwise_job* j = (const depthwise_job*)argument;
  const int32_t begin = task * j->rows_per_task;
  if (is_common_q8(j)) {
    const xrt_tile_depthwise_image image = {j->p, j->x, j->w, j->scale, (const int32_t*)j->bias,
                                            j->y};
    const int32_t end = begin + j->rows_per_task;
    j->isa->depthwise_rows_q8(&image, begin, end < j->rows ? end : j->rows);
    return;
  }
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
