/* SPDX-License-Identifier: Apache-2.0
 * Convolution in float32: tiles of pixels by blocks of channels, whose sums go from the registers
 * to their place.
 *
 * A tile whose windows lie inside of the image reads it in place; where the taps of a window's row
 * lie side by side they are one segment. At the borders taps outside of the image are zeros, and
 * those of few channels are copied side by side. */
#include "panels.h"

#define ZERO_ELEMENTS 1024 /* of a tap outside of the image: longer runs are cut */
#define GATHER_ELEMENTS 1024
#define GATHER_RUN 16            /* taps of fewer channels are copied side by side at borders */
#define MAX_SEGMENTS 64          /* taps reached by pointers at once */
#define NEAR_BYTES (12 << 10)    /* of the image that stay in the first cache */
#define NEAR_FACTORS (768 << 10) /* of factors that stay in the second cache */
#define FAR_PANEL (768 << 10)    /* a panel's factors that do not stay there */
#define FAR_FACTORS (384 << 10)  /* of these, so many at once */
#define FAR_TILES 10

static const float zeros[ZERO_ELEMENTS];

typedef struct conv_job {
  const xrt_k_conv* p;
  const xrt_tile_isa* isa;
  int half;
  const uint8_t* x;
  const uint8_t* w;
  const float* bias;
  const uint8_t* r;
  uint8_t* y;
  int flat;  /* a pixel's window is the pixel of the same number */
  int dense; /* the taps of a row of a window lie side by side */
  int32_t icg, ocg, blocks, panels, group_bytes;
  int32_t pixels; /* n * oh * ow */
  int32_t taps;
  int64_t pixel_bytes, row_bytes, image_bytes; /* of the input */
  int64_t block_bytes;                         /* of one block's factors */
  int64_t factor_bytes;                        /* of one tap of the kernel, in a block */
  xrt_tile_split split;
} conv_job;

/* The place of a pixel of the output. */
typedef struct place {
  int32_t n, y, x;
} place;

static place place_of(const conv_job* j, int32_t pixel) {
  const int32_t ow = j->p->ow, oh = j->p->oh;
  const place at = {pixel / ow / oh, pixel / ow % oh, pixel % ow};
  return at;
}

/* The windows of a tile's pixels. */
typedef struct windows {
  int32_t count;
  int inside;                          /* all of them lie in the image: */
  const uint8_t* from[XRT_TILE_ROWS];  /* first taps; beyond count: the first pixel's */
  const uint8_t* image[XRT_TILE_ROWS]; /* else: images, and where windows begin in them */
  int32_t y[XRT_TILE_ROWS], x[XRT_TILE_ROWS];
} windows;

static void advance(const conv_job* j, place* at, int32_t count) {
  at->x += count;
  while (at->x >= j->p->ow) {
    at->x -= j->p->ow;
    if (++at->y < j->p->oh) continue;
    at->y = 0;
    ++at->n;
  }
}

/* Those of the next `count` pixels. */
static void next_windows(const conv_job* j, place* at, int32_t group, int32_t count, windows* w) {
  const xrt_k_conv* p = j->p;
  const int32_t y_most = p->ih - 1 - (p->kh - 1) * p->dilation_h;
  const int32_t x_most = p->iw - 1 - (p->kw - 1) * p->dilation_w;
  const uint8_t* x0 = j->x + (int64_t)group * j->icg * 4;
  w->count = count;
  const int32_t top = at->y * p->stride_h - p->pad_top, left = at->x * p->stride_w - p->pad_left;
  if (at->x + count <= p->ow && top >= 0 && top <= y_most && left >= 0 &&
      left + (count - 1) * p->stride_w <= x_most) { /* of one row */
    const uint8_t* from =
        x0 + (at->n * j->image_bytes + top * j->row_bytes + left * j->pixel_bytes);
    const int64_t step = p->stride_w * j->pixel_bytes;
    for (int32_t i = 0; i < XRT_TILE_ROWS; ++i) w->from[i] = from + (i < count ? i : 0) * step;
    w->inside = 1;
    advance(j, at, count);
    return;
  }
  int outside = 0;
  for (int32_t i = 0; i < count; ++i, advance(j, at, 1)) {
    const int32_t y = at->y * p->stride_h - p->pad_top, x = at->x * p->stride_w - p->pad_left;
    outside |= (y < 0) | (y > y_most) | (x < 0) | (x > x_most);
    w->image[i] = x0 + at->n * j->image_bytes;
    w->y[i] = y;
    w->x[i] = x;
  }
  w->inside = !outside;
  for (int32_t i = 0; i < XRT_TILE_ROWS && w->inside; ++i) {
    const int32_t k = i < count ? i : 0;
    w->from[i] = w->image[k] + (w->y[k] * j->row_bytes + w->x[k] * j->pixel_bytes);
  }
}

static void sum(const conv_job* j, const xrt_tile* tile, const xrt_tile_finish* finish) {
  void (*fused)(const xrt_tile*, const xrt_tile_finish*) =
      j->half ? j->isa->sum_f16 : j->isa->sum_f32;
  if (fused) {
    fused(tile, finish);
    return;
  }
  (j->half ? j->isa->mac_f16 : j->isa->mac_f32)(tile);
  if (finish) j->isa->finish_f32(finish);
}

/* All windows inside. */
static void sum_inside(const conv_job* j, const windows* at, xrt_tile* tile,
                       const xrt_tile_finish* finish) {
  const xrt_k_conv* p = j->p;
  const void* rows[MAX_SEGMENTS][XRT_TILE_ROWS];
  const uint8_t* w = (const uint8_t*)tile->w;
  const int32_t columns = j->dense ? 1 : p->kw, segments = p->kh * columns;
  tile->rows = (const void* const(*)[XRT_TILE_ROWS])rows;
  tile->run = j->dense ? p->kw * j->icg : j->icg;
  tile->segment_bytes = (j->dense ? p->kw : 1) * j->factor_bytes;
  for (int32_t first = 0; first < segments; first += MAX_SEGMENTS) {
    const int32_t count = segments - first < MAX_SEGMENTS ? segments - first : MAX_SEGMENTS;
    for (int32_t s = 0; s < count; ++s) {
      const int32_t ky = (first + s) / columns, kx = (first + s) % columns;
      const int64_t to = ky * p->dilation_h * j->row_bytes + kx * p->dilation_w * j->pixel_bytes;
      for (int32_t i = 0; i < XRT_TILE_ROWS; ++i) rows[s][i] = at->from[i] + to;
    }
    tile->segments = count;
    tile->w = w + first * tile->segment_bytes;
    sum(j, tile, first + count < segments ? NULL : finish);
    tile->accumulate = 1;
  }
}

/* The first channel of a tap, or null outside of the image. */
static const float* tap_of(const conv_job* j, const windows* at, int32_t i, int32_t ky,
                           int32_t kx) {
  const xrt_k_conv* p = j->p;
  const int32_t down = ky * p->dilation_h, right = kx * p->dilation_w;
  const uint8_t* tap = NULL;
  if (at->inside) {
    tap = at->from[i] + (down * j->row_bytes + right * j->pixel_bytes);
  } else {
    const int32_t y = at->y[i] + down, x = at->x[i] + right;
    if (y >= 0 && y < p->ih && x >= 0 && x < p->iw)
      tap = at->image[i] + (y * j->row_bytes + x * j->pixel_bytes);
  }
  return (const float*)(const void*)tap;
}

/* Taps [begin, end) reached by pointers, those outside of the image to zeros. */
static void sum_taps(const conv_job* j, const windows* at, int32_t begin, int32_t end,
                     xrt_tile* tile, const xrt_tile_finish* finish) {
  const xrt_k_conv* p = j->p;
  const void* rows[MAX_SEGMENTS][XRT_TILE_ROWS];
  const uint8_t* w = (const uint8_t*)tile->w;
  tile->rows = (const void* const(*)[XRT_TILE_ROWS])rows;
  tile->segment_bytes = j->factor_bytes;
  for (int32_t first = begin; first < end; first += MAX_SEGMENTS) {
    const int32_t count = end - first < MAX_SEGMENTS ? end - first : MAX_SEGMENTS;
    for (int32_t c = 0; c < j->icg; c += ZERO_ELEMENTS) {
      for (int32_t s = 0; s < count; ++s) {
        const int32_t ky = (first + s) / p->kw, kx = (first + s) % p->kw;
        for (int32_t i = 0; i < XRT_TILE_ROWS; ++i) {
          if (i >= at->count) {
            rows[s][i] = rows[s][0];
            continue;
          }
          const float* tap = tap_of(j, at, i, ky, kx);
          rows[s][i] = tap ? tap + c : zeros;
        }
      }
      tile->segments = count;
      tile->run = j->icg - c < ZERO_ELEMENTS ? j->icg - c : ZERO_ELEMENTS;
      tile->w = w + first * j->factor_bytes + (int64_t)c * j->group_bytes;
      const int last = first + count == end && c + tile->run == j->icg;
      sum(j, tile, last ? finish : NULL);
      tile->accumulate = 1;
    }
  }
}

/* Taps copied side by side. */
static void sum_gathered(const conv_job* j, const windows* at, xrt_tile* tile,
                         const xrt_tile_finish* finish) {
  float buffer[XRT_TILE_ROWS][GATHER_ELEMENTS];
  const void* rows[1][XRT_TILE_ROWS];
  const uint8_t* w = (const uint8_t*)tile->w;
  const int32_t together = GATHER_ELEMENTS / j->icg;
  for (int32_t i = 0; i < XRT_TILE_ROWS; ++i) rows[0][i] = buffer[i < at->count ? i : 0];
  tile->rows = (const void* const(*)[XRT_TILE_ROWS])rows;
  tile->segments = 1;
  for (int32_t first = 0; first < j->taps; first += together) {
    const int32_t count = j->taps - first < together ? j->taps - first : together;
    for (int32_t i = 0; i < at->count; ++i) {
      float* to = buffer[i];
      for (int32_t t = first; t < first + count; ++t) {
        const float* tap = tap_of(j, at, i, t / j->p->kw, t % j->p->kw);
        for (int32_t c = 0; c < j->icg; ++c) *to++ = tap ? tap[c] : 0.0f;
      }
    }
    tile->run = count * j->icg;
    tile->w = w + first * j->factor_bytes;
    sum(j, tile, first + count < j->taps ? NULL : finish);
    tile->accumulate = 1;
  }
}

/* A panel of one group. */
typedef struct panel_work {
  int32_t group, block, blocks;
  const uint8_t* w;
  xrt_tile_finish finish;
} panel_work;

static panel_work panel_of(const conv_job* j, int32_t group, int32_t panel, float* sums) {
  const xrt_k_conv* p = j->p;
  panel_work work = {0};
  work.group = group;
  work.block = xrt_tile_find_panel(j->isa, j->blocks, panel, &work.blocks);
  work.w = j->w + ((int64_t)group * j->blocks + work.block) * j->block_bytes;
  xrt_tile_finish* f = &work.finish;
  f->acc = sums;
  f->block_count = work.blocks;
  f->channels = j->ocg - work.block * XRT_TILE_BLOCK;
  f->alpha = 1.0f;
  f->bias = j->bias ? j->bias + group * j->ocg + work.block * XRT_TILE_BLOCK : NULL;
  f->clip = p->activation == XRT_ACT_CLIP;
  f->lo = p->lo;
  f->hi = p->hi;
  f->r_row = (int64_t)p->r_pitch * 4;
  f->y_row = (int64_t)p->y_pitch * 4;
  return work;
}

/* Pixels [first, first + count) where a panel's factors fill the second cache: some taps at a time
 * by all tiles, whose sums wait. */
static void sum_far_panel(const conv_job* j, const panel_work* work, int32_t first, int32_t count) {
  float sums[FAR_TILES][XRT_TILE_SUMS] __attribute__((aligned(64)));
  windows w[FAR_TILES];
  const int32_t most = j->isa->rows_for[work->blocks];
  const int32_t tiles = (count + most - 1) / most;
  const int64_t tap_bytes = work->blocks * j->factor_bytes;
  const int32_t together = tap_bytes > FAR_FACTORS ? 1 : (int32_t)(FAR_FACTORS / tap_bytes);
  const int32_t parts = (tiles + work->blocks - 1) / work->blocks;
  place at = place_of(j, first);
  for (int32_t t = 0; t < tiles; ++t) {
    const int32_t begin = (int32_t)((int64_t)count * t / tiles);
    next_windows(j, &at, work->group, (int32_t)((int64_t)count * (t + 1) / tiles) - begin, &w[t]);
  }
  xrt_tile_finish finish = work->finish;
  const int64_t c = (int64_t)work->group * j->ocg + work->block * XRT_TILE_BLOCK;
  for (int32_t tap = 0; tap < j->taps; tap += together) {
    const int32_t end = j->taps - tap < together ? j->taps : tap + together;
    const int32_t next = end + together < j->taps ? end + together : j->taps;
    /* Of the next taps' factors, each tile fetches a part of one block's. */
    const int64_t part_bytes = (next - end) * j->factor_bytes / parts;
    int64_t pixel = first;
    for (int32_t t = 0; t < tiles; pixel += w[t++].count) {
      xrt_tile tile = {0};
      tile.row_count = w[t].count;
      tile.block_count = work->blocks;
      tile.w = work->w;
      tile.block_bytes = j->block_bytes;
      tile.acc = sums[t];
      tile.accumulate = tap > 0;
      if (part_bytes > 0) {
        tile.ahead = work->w + t % work->blocks * j->block_bytes + end * j->factor_bytes +
                     t / work->blocks * part_bytes;
        tile.ahead_step = part_bytes / ((int64_t)(end - tap) * j->icg);
      }
      finish.acc = sums[t];
      finish.row_count = w[t].count;
      finish.r = j->r ? j->r + pixel * finish.r_row + c * 4 : NULL;
      finish.y = j->y + pixel * finish.y_row + c * 4;
      sum_taps(j, &w[t], tap, end, &tile, end == j->taps ? &finish : NULL);
    }
  }
}

/* Pixels [first, first + count); `ahead` is fetched into the caches meanwhile, as many bytes of it
 * as the panel's factors are. */
static void sum_panel(const conv_job* j, panel_work* work, int32_t first, int32_t count,
                      const uint8_t* ahead, float* sums) {
  const int32_t most = j->isa->rows_for[work->blocks];
  const int32_t tiles = (count + most - 1) / most; /* of nearly equal height */
  const int64_t c = (int64_t)work->group * j->ocg + work->block * XRT_TILE_BLOCK;
  if (j->taps > 1 && work->blocks * j->block_bytes > FAR_PANEL && tiles > 1 && tiles <= FAR_TILES &&
      j->icg >= GATHER_RUN) {
    sum_far_panel(j, work, first, count);
    return;
  }
  const int64_t ahead_bytes = work->blocks * j->block_bytes / tiles;
  place at = place_of(j, first);
  for (int32_t t = 0; t < tiles; ++t) {
    const int32_t begin = first + (int32_t)((int64_t)count * t / tiles);
    const int32_t rows = first + (int32_t)((int64_t)count * (t + 1) / tiles) - begin;
    xrt_tile tile = {0};
    tile.row_count = rows;
    tile.block_count = work->blocks;
    tile.w = work->w;
    tile.block_bytes = j->block_bytes;
    tile.acc = sums;
    if (ahead) {
      tile.ahead = ahead + t * ahead_bytes;
      tile.ahead_step = ahead_bytes / ((int64_t)j->taps * j->icg);
    }
    xrt_tile_finish* finish = &work->finish;
    finish->row_count = rows;
    finish->r = j->r ? j->r + begin * finish->r_row + c * 4 : NULL;
    finish->y = j->y + begin * finish->y_row + c * 4;
    if (j->flat) {
      const void* pixels[1][XRT_TILE_ROWS];
      const uint8_t* x = j->x + begin * j->pixel_bytes + (int64_t)work->group * j->icg * 4;
      for (int32_t i = 0; i < XRT_TILE_ROWS; ++i)
        pixels[0][i] = i < rows ? x + i * j->pixel_bytes : x;
      tile.rows = (const void* const(*)[XRT_TILE_ROWS])pixels;
      tile.segments = 1;
      tile.run = j->icg;
      sum(j, &tile, finish);
      continue;
    }
    windows w;
    next_windows(j, &at, work->group, rows, &w);
    if (w.inside)
      sum_inside(j, &w, &tile, finish);
    else if (j->icg < GATHER_RUN)
      sum_gathered(j, &w, &tile, finish);
    else
      sum_taps(j, &w, 0, j->taps, &tile, finish);
  }
}

static void conv_task(void* argument, int32_t task) {
  const conv_job* j = (const conv_job*)argument;
  const xrt_tile_split* split = &j->split;
  float sums[XRT_TILE_SUMS] __attribute__((aligned(64)));
  const int32_t begin = task % split->row_tasks * split->rows_each;
  const int32_t end = begin + split->rows_each < j->pixels ? begin + split->rows_each : j->pixels;
  task /= split->row_tasks;
  const int32_t group = task / split->panel_tasks;
  const int32_t panel = task % split->panel_tasks * split->panels_each;
  const int32_t last =
      panel + split->panels_each < j->panels ? panel + split->panels_each : j->panels;
  if (begin >= end) return;
  const int64_t factor_bytes = j->block_bytes * j->blocks;
  const int64_t image_bytes = (int64_t)(end - begin) * j->p->stride_h * j->p->stride_w * j->icg * 4;
  if (last - panel == 1 || factor_bytes > NEAR_FACTORS || factor_bytes > image_bytes) {
    /* A panel's factors are read once; the next ones follow them in memory. */
    for (int32_t n = panel; n < last; ++n) {
      panel_work work = panel_of(j, group, n, sums);
      sum_panel(j, &work, begin, end - begin, work.w + work.blocks * j->block_bytes, sums);
    }
    return;
  }
  /* Some pixels, which stay in the first cache, by all panels, which stay in the second one. */
  const int32_t most = j->isa->rows_for[xrt_tile_panel(j->isa, j->blocks)];
  int32_t step = NEAR_BYTES / (j->taps * j->icg * 4) / most * most;
  if (step < most) step = most;
  for (int32_t first = begin; first < end; first += step) {
    const int32_t count = end - first < step ? end - first : step;
    for (int32_t n = panel; n < last; ++n) {
      panel_work work = panel_of(j, group, n, sums);
      sum_panel(j, &work, first, count, NULL, sums);
    }
  }
}

xrt_lite_status xrt_tile_conv(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  if (p->pack_n != XRT_TILE_BLOCK || p->pack_k != 1) return XRT_LITE_UNSUPPORTED;
  conv_job j = {0};
  int next = 2;
  j.p = p;
  j.isa = isa;
  j.half = p->weight_dtype == XRT_LITE_F16;
  j.x = (const uint8_t*)call->operands[0];
  j.w = (const uint8_t*)call->operands[1];
  if (p->flags & XRT_HAS_BIAS) j.bias = (const float*)call->operands[next++];
  if (p->flags & XRT_HAS_RESIDUAL) j.r = (const uint8_t*)call->operands[next++];
  j.y = (uint8_t*)call->operands[next];
  j.icg = p->ic / p->groups;
  j.ocg = p->oc / p->groups;
  j.taps = p->kh * p->kw;
  j.flat = j.taps == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
           p->pad_left == 0 && p->oh == p->ih && p->ow == p->iw;
  j.dense = p->dilation_w == 1 && p->x_pitch == j.icg;
  j.pixel_bytes = (int64_t)p->x_pitch * 4;
  j.row_bytes = p->iw * j.pixel_bytes;
  j.image_bytes = p->ih * j.row_bytes;
  j.blocks = (j.ocg + XRT_TILE_BLOCK - 1) / XRT_TILE_BLOCK;
  j.panels = xrt_tile_panel_count(isa, j.blocks);
  j.group_bytes = XRT_TILE_BLOCK * (j.half ? 2 : 4);
  j.factor_bytes = (int64_t)j.icg * j.group_bytes;
  j.block_bytes = j.taps * j.factor_bytes;
  j.pixels = p->n * p->oh * p->ow;
  const int32_t widest = xrt_tile_panel(isa, j.blocks);
  j.split = xrt_tile_split_work(call, j.pixels, isa->rows_for[widest], j.panels);
  xrt_parallel(call, j.split.row_tasks * j.split.panel_tasks * p->groups, conv_task, &j);
  return XRT_LITE_OK;
}
