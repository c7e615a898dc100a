/* SPDX-License-Identifier: Apache-2.0
 * int8 convolution as tiles of pixels by blocks of channels. */
#include "panels.h"

#define PACK_K 4 /* taps' channels that lie side by side in the factors */
#define GROUP_BYTES (XRT_TILE_BLOCK * PACK_K) /* of the factors of so many channels of one block \
                                               */
#define ZERO_ELEMENTS 512 /* of a tap outside of the image: longer runs are cut */
#define GATHER_BYTES 4096 /* of a row of a tile whose taps are copied side by side */
#define GATHER_RUN 16     /* taps of fewer channels are */
#define MAX_SEGMENTS 64   /* taps reached by pointers at once */

typedef struct conv_job {
  const xrt_k_conv* p;
  const xrt_tile_isa* isa;
  const uint8_t* x;
  const uint8_t* w;
  const float* scale;
  const uint8_t* bias;
  const uint8_t* r;
  uint8_t* y;
  int gather;
  int dense_rows; /* the taps of a row of a window lie side by side */
  int32_t icg, ocg, blocks, panels, tile_rows;
  int32_t pixels;      /* n * oh * ow */
  int32_t k;           /* taps * icg */
  int64_t block_bytes; /* of one block's factors */
  int32_t zero;        /* what x's bytes have added */
  uint32_t flip;
  xrt_tile_split split;
} conv_job;

/* Where a pixel's window begins. */
typedef struct window {
  const uint8_t* image;
  int32_t y, x;
} window;

static window window_of(const conv_job* j, int32_t pixel, int32_t group) {
  const xrt_k_conv* p = j->p;
  const int32_t ox = pixel % p->ow, oy = pixel / p->ow % p->oh, n = pixel / p->ow / p->oh;
  const window at = {j->x + (int64_t)n * p->ih * p->iw * p->x_pitch + (int64_t)group * j->icg,
                     oy * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left};
  return at;
}

/* The first channel of a tap, or null outside of the image. */
static const uint8_t* tap_of(const conv_job* j, const window* at, int32_t ky, int32_t kx) {
  const xrt_k_conv* p = j->p;
  const int32_t iy = at->y + ky * p->dilation_h, ix = at->x + kx * p->dilation_w;
  if (iy < 0 || iy >= p->ih || ix < 0 || ix >= p->iw) return NULL;
  return at->image + ((int64_t)iy * p->iw + ix) * p->x_pitch;
}

/* Values [k, k + count) of a pixel's window, side by side. */
static void gather_part(const conv_job* j, const window* at, int32_t k, int32_t count,
                        uint8_t* to) {
  for (int32_t i = 0; i < count;) {
    const int32_t tap = (k + i) / j->icg, c = (k + i) % j->icg;
    const int32_t run = j->icg - c < count - i ? j->icg - c : count - i;
    const uint8_t* from = tap_of(j, at, tap / j->p->kw, tap % j->p->kw);
    if (from)
      memcpy(to + i, from + c, (size_t)run);
    else
      memset(to + i, (uint8_t)j->p->x_zero, (size_t)run);
    i += run;
  }
}

/* A whole window whose rows lie side by side in the image. */
static void gather_rows(const conv_job* j, const window* at, uint8_t* to) {
  const xrt_k_conv* p = j->p;
  const int outside = (uint8_t)p->x_zero;
  const int64_t tap = j->icg, row = p->kw * tap;
  const int32_t before = at->x < 0 ? (-at->x < p->kw ? -at->x : p->kw) : 0;
  int32_t end = p->iw - at->x < p->kw ? p->iw - at->x : p->kw;
  if (end < before) end = before;
  for (int32_t ky = 0; ky < p->kh; ++ky, to += row) {
    const int32_t iy = at->y + ky * p->dilation_h;
    if (iy < 0 || iy >= p->ih) {
      memset(to, outside, (size_t)row);
      continue;
    }
    const uint8_t* from = at->image + ((int64_t)iy * p->iw + at->x) * tap;
    if (before > 0) memset(to, outside, (size_t)(before * tap));
    memcpy(to + before * tap, from + before * tap, (size_t)((end - before) * tap));
    if (end < p->kw) memset(to + end * tap, outside, (size_t)((p->kw - end) * tap));
  }
}

typedef struct tile_place {
  int32_t group, first, count; /* pixels */
  int32_t rows;                /* of the tile, at least count */
  int32_t block, blocks;
} tile_place;

/* Taps copied side by side: where their channels are few, or do not fill the packing. */
static void sum_gathered(const conv_job* j, const tile_place* at, xrt_tile* tile) {
  uint8_t buffer[XRT_TILE_ROWS][GATHER_BYTES] __attribute__((aligned(64)));
  const void* rows[1][XRT_TILE_ROWS];
  window windows[XRT_TILE_ROWS];
  for (int32_t i = 0; i < at->rows; ++i) {
    const int32_t used = i < at->count ? i : 0;
    windows[i] = window_of(j, at->first + used, at->group);
    rows[0][i] = buffer[used];
  }
  const uint8_t* w = (const uint8_t*)tile->w;
  tile->rows = (const void* const(*)[XRT_TILE_ROWS])rows;
  tile->segments = 1;
  for (int32_t k = 0; k < j->k; k += GATHER_BYTES) {
    const int32_t count = j->k - k < GATHER_BYTES ? j->k - k : GATHER_BYTES;
    for (int32_t i = 0; i < at->count; ++i) {
      if (j->dense_rows && count == j->k)
        gather_rows(j, &windows[i], buffer[i]);
      else
        gather_part(j, &windows[i], k, count, buffer[i]);
      for (int32_t b = count; b % PACK_K != 0; ++b) buffer[i][b] = 0; /* its factors are 0 */
    }
    tile->run = (count + PACK_K - 1) / PACK_K;
    tile->w = w + (int64_t)(k / PACK_K) * GROUP_BYTES;
    tile->accumulate = k != 0;
    j->isa->mac_q8(tile);
  }
}

/* Taps reached by pointers. */
static void sum_taps(const conv_job* j, const tile_place* at, const void* zeros, xrt_tile* tile) {
  const xrt_k_conv* p = j->p;
  const int32_t taps = p->kh * p->kw;
  const void* rows[MAX_SEGMENTS][XRT_TILE_ROWS];
  window windows[XRT_TILE_ROWS];
  for (int32_t i = 0; i < at->count; ++i) windows[i] = window_of(j, at->first + i, at->group);
  const uint8_t* w = (const uint8_t*)tile->w;
  tile->rows = (const void* const(*)[XRT_TILE_ROWS])rows;
  tile->segment_bytes = (int64_t)(j->icg / PACK_K) * GROUP_BYTES;
  tile->accumulate = 0;
  for (int32_t first = 0; first < taps; first += MAX_SEGMENTS) {
    const int32_t segments = taps - first < MAX_SEGMENTS ? taps - first : MAX_SEGMENTS;
    for (int32_t c = 0; c < j->icg; c += ZERO_ELEMENTS) {
      const int32_t run = j->icg - c < ZERO_ELEMENTS ? j->icg - c : ZERO_ELEMENTS;
      for (int32_t s = 0; s < segments; ++s) {
        const int32_t ky = (first + s) / p->kw, kx = (first + s) % p->kw;
        for (int32_t i = 0; i < at->rows; ++i) {
          if (i >= at->count) {
            rows[s][i] = rows[s][0];
            continue;
          }
          const uint8_t* tap = tap_of(j, &windows[i], ky, kx);
          rows[s][i] = tap ? (const void*)(tap + c) : zeros;
        }
      }
      tile->segments = segments;
      tile->run = run / PACK_K;
      tile->w = w + first * tile->segment_bytes + (int64_t)(c / PACK_K) * GROUP_BYTES;
      j->isa->mac_q8(tile);
      tile->accumulate = 1;
    }
  }
}

static void conv_task(void* argument, int32_t task) {
  const conv_job* j = (const conv_job*)argument;
  const xrt_k_conv* p = j->p;
  const xrt_tile_split* split = &j->split;
  float sums[XRT_TILE_SUMS] __attribute__((aligned(64)));
  int32_t factor_sums[XRT_TILE_BLOCKS * XRT_TILE_BLOCK];
  uint8_t zeros[ZERO_ELEMENTS];
  memset(zeros, (uint8_t)p->x_zero, sizeof(zeros));

  const int32_t begin = task % split->row_tasks * split->rows_each;
  const int32_t end = begin + split->rows_each < j->pixels ? begin + split->rows_each : j->pixels;
  task /= split->row_tasks;
  const int32_t group = task / split->panel_tasks;
  const int32_t panel = task % split->panel_tasks * split->panels_each;
  const int32_t last =
      panel + split->panels_each < j->panels ? panel + split->panels_each : j->panels;
  for (int32_t n = panel; n < last; ++n) {
    tile_place at = {group, 0, 0, 0, 0, 0};
    at.block = xrt_tile_find_panel(j->isa, j->blocks, n, &at.blocks);
    const uint8_t* w = j->w + ((int64_t)group * j->blocks + at.block) * j->block_bytes;
    const int32_t c = group * j->ocg + at.block * XRT_TILE_BLOCK;
    xrt_tile_finish finish = {0};
    finish.acc = sums;
    finish.block_count = at.blocks;
    finish.channels = j->ocg - at.block * XRT_TILE_BLOCK;
    finish.alpha = 1.0f;
    finish.bias = j->bias ? j->bias + 4 * (int64_t)c : NULL;
    finish.clip = p->activation == XRT_ACT_CLIP;
    finish.lo = p->lo;
    finish.hi = p->hi;
    finish.r_row = p->r_pitch;
    finish.y_row = p->y_pitch;
    finish.scale = j->scale + c;
    finish.r_dtype = p->r_dtype;
    finish.r_zero = p->r_zero;
    finish.r_scale = p->r_scale;
    finish.y_dtype = p->y_dtype;
    finish.y_zero = p->y_zero;
    if (j->zero != 0) {
      xrt_tile_factor_sums(j->isa, w, j->block_bytes, at.blocks, (j->k + PACK_K - 1) / PACK_K,
                           factor_sums);
      finish.factor_sums = factor_sums;
      finish.x_zero = j->zero;
    }
    const int32_t most = at.rows = j->isa->rows_for[at.blocks];
    for (at.first = begin; at.first < end; at.first += most) {
      at.count = end - at.first < most ? end - at.first : most;
      xrt_tile tile = {0};
      tile.row_count = at.count;
      tile.block_count = at.blocks;
      tile.w = w;
      tile.block_bytes = j->block_bytes;
      tile.flip = j->flip;
      tile.acc = sums;
      if (j->gather)
        sum_gathered(j, &at, &tile);
      else
        sum_taps(j, &at, zeros, &tile);
      finish.row_count = at.count;
      finish.r = j->r ? j->r + (int64_t)at.first * p->r_pitch + c : NULL;
      finish.y = j->y + (int64_t)at.first * p->y_pitch + c;
      j->isa->finish_q8(&finish);
    }
  }
}

xrt_lite_status xrt_tile_conv_q8(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  if (p->pack_n != XRT_TILE_BLOCK || p->pack_k != PACK_K) return XRT_LITE_UNSUPPORTED;
  conv_job j = {0};
  int next = 3;
  j.p = p;
  j.isa = isa;
  j.x = (const uint8_t*)call->operands[0];
  j.w = (const uint8_t*)call->operands[1];
  j.scale = (const float*)call->operands[2];
  if (p->flags & XRT_HAS_BIAS) j.bias = (const uint8_t*)call->operands[next++];
  if (p->flags & XRT_HAS_RESIDUAL) j.r = (const uint8_t*)call->operands[next++];
  j.y = (uint8_t*)call->operands[next];
  j.icg = p->ic / p->groups;
  j.ocg = p->oc / p->groups;
  j.k = p->kh * p->kw * j.icg;
  j.gather = j.icg < GATHER_RUN || j.icg % PACK_K != 0;
  j.dense_rows = p->dilation_w == 1 && p->x_pitch == j.icg;
  j.blocks = (j.ocg + XRT_TILE_BLOCK - 1) / XRT_TILE_BLOCK;
  j.panels = xrt_tile_panel_count(isa, j.blocks);
  j.block_bytes = (int64_t)((j.k + PACK_K - 1) / PACK_K) * GROUP_BYTES;
  j.pixels = p->n * p->oh * p->ow;
  j.flip = xrt_tile_flips(isa, p->x_dtype) ? 0x80808080u : 0;
  j.zero = p->x_zero + (j.flip ? xrt_tile_flip_shift(isa) : 0);
  int32_t widest = xrt_tile_panel(isa, j.blocks);
  j.split = xrt_tile_split_work(call, j.pixels, isa->rows_for[widest], j.panels);
  xrt_parallel(call, j.split.row_tasks * j.split.panel_tasks * p->groups, conv_task, &j);
  return XRT_LITE_OK;
}
