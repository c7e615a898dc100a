/* SPDX-License-Identifier: Apache-2.0
 * Matrix products as tiles of rows by blocks of columns. A factor that is no constant is packed on
 * the stack, a panel and CHUNK of its rows at a time, and serves all rows of the task; rows that do
 * not lie side by side are copied likewise. */
#include "panels.h"

#define CHUNK 128
#define AHEAD 2048     /* bytes of constant factors that are fetched before they are needed */
#define PACKED_ROWS 96 /* of a task whose second factor is packed: their sums wait on the stack */

typedef struct gemm_job {
  const xrt_k_gemm* p;
  const xrt_tile_isa* isa;
  void (*mac)(const xrt_tile*);
  void (*sum)(const xrt_tile*, const xrt_tile_finish*); /* of constant float32 factors, or null */
  const uint8_t* a;
  const uint8_t* b;
  const float* scale;
  const uint8_t* bias;
  const uint8_t* r;
  uint8_t* y;
  int q8;
  int32_t element, pack_k, blocks, panels, group_bytes, zero;
  int64_t block_bytes;
  uint32_t flip;
  xrt_tile_split split;
} gemm_job;

typedef struct gemm_place {
  const uint8_t *a, *b, *r;
  uint8_t* y;
  int32_t begin, end;    /* rows */
  int32_t panel, panels; /* first, and after the last */
} gemm_place;

static gemm_place locate(const gemm_job* j, int32_t task) {
  const xrt_k_gemm* p = j->p;
  gemm_place at = {j->a, j->b, j->r, j->y, 0, 0, 0, 0};
  at.begin = task % j->split.row_tasks * j->split.rows_each;
  at.end = at.begin + j->split.rows_each < p->m ? at.begin + j->split.rows_each : p->m;
  task /= j->split.row_tasks;
  at.panel = task % j->split.panel_tasks * j->split.panels_each;
  at.panels = at.panel + j->split.panels_each;
  if (at.panels > j->panels) at.panels = j->panels;
  int32_t batch = task / j->split.panel_tasks;
  const int32_t b_element = p->pack_n == 0 ? 4 : j->group_bytes / (XRT_TILE_BLOCK * j->pack_k);
  for (int i = 3; i >= 0; --i) {
    const int64_t index = batch % p->batch[i];
    batch /= p->batch[i];
    at.a += index * p->a_batch[i] * j->element;
    at.b += index * p->b_batch[i] * b_element;
    at.y += index * p->y_batch[i] * j->element;
    if (at.r) at.r += index * p->y_batch[i] * j->element;
  }
  return at;
}

/* Rows [first, first + count) of the first factor from k on: pointers, to copies where a_col is not
 * 1 or the last group of int8 values is cut. */
static void fetch_rows(const gemm_job* j, const gemm_place* at, int32_t first, int32_t count,
                       int32_t most, int32_t k, int32_t run,
                       uint8_t copies[XRT_TILE_ROWS][CHUNK * 4], const void** rows) {
  const xrt_k_gemm* p = j->p;
  const int copy = p->a_col != 1 || run % j->pack_k != 0;
  for (int32_t i = 0; i < most; ++i) {
    if (i >= count) {
      rows[i] = rows[0];
      continue;
    }
    const uint8_t* row =
        at->a + ((int64_t)(first + i) * p->a_row + (int64_t)k * p->a_col) * j->element;
    rows[i] = row;
    if (!copy) continue;
    memset(copies[i], 0, sizeof(copies[i]));
    for (int32_t c = 0; c < run; ++c)
      memcpy(copies[i] + c * j->element, row + (int64_t)c * p->a_col * j->element,
             (size_t)j->element);
    rows[i] = copies[i];
  }
}

static void fetch_panel(const gemm_job* j, const gemm_place* at, int32_t column, int32_t blocks,
                        int32_t k, int32_t run, float* panel) {
  const xrt_k_gemm* p = j->p;
  for (int32_t b = 0; b < blocks; ++b, column += XRT_TILE_BLOCK) {
    const int32_t width = p->n - column < XRT_TILE_BLOCK ? p->n - column : XRT_TILE_BLOCK;
    float* to = panel + (int64_t)b * CHUNK * XRT_TILE_BLOCK;
    const float* from =
        (const float*)(const void*)at->b + (int64_t)k * p->b_row + (int64_t)column * p->b_col;
    if (width < XRT_TILE_BLOCK) memset(to, 0, (size_t)run * XRT_TILE_BLOCK * sizeof(float));
    if (p->b_col == 1) {
      for (int32_t i = 0; i < run; ++i)
        memcpy(to + i * XRT_TILE_BLOCK, from + (int64_t)i * p->b_row,
               (size_t)width * sizeof(float));
    } else {
      for (int32_t c = 0; c < width; ++c)
        for (int32_t i = 0; i < run; ++i)
          to[i * XRT_TILE_BLOCK + c] = from[(int64_t)i * p->b_row + (int64_t)c * p->b_col];
    }
  }
}

static xrt_tile_finish finish_of(const gemm_job* j, const gemm_place* at, const void* sums,
                                 int32_t first, int32_t count, int32_t block, int32_t blocks) {
  const xrt_k_gemm* p = j->p;
  const int32_t c = block * XRT_TILE_BLOCK;
  xrt_tile_finish f = {0};
  f.acc = sums;
  f.row_count = count;
  f.block_count = blocks;
  f.channels = p->n - c;
  f.alpha = j->q8 ? 1.0f : p->alpha;
  f.bias = j->bias ? j->bias + 4 * (int64_t)c : NULL;
  f.clip = p->activation == XRT_ACT_CLIP;
  f.lo = p->lo;
  f.hi = p->hi;
  f.y_row = f.r_row = (int64_t)p->y_row * j->element;
  const int64_t offset = ((int64_t)first * p->y_row + c) * j->element;
  f.y = at->y + offset;
  f.r = at->r ? at->r + offset : NULL;
  if (!j->q8) return f;
  f.scale = j->scale + c;
  f.x_zero = j->zero;
  f.r_dtype = p->r_dtype;
  f.r_zero = p->r_zero;
  f.r_scale = p->r_scale;
  f.y_dtype = p->y_dtype;
  f.y_zero = p->y_zero;
  return f;
}

static void finish_tile(const gemm_job* j, const gemm_place* at, const void* sums,
                        const int32_t* factor_sums, int32_t first, int32_t count, int32_t block,
                        int32_t blocks) {
  xrt_tile_finish f = finish_of(j, at, sums, first, count, block, blocks);
  f.factor_sums = factor_sums;
  (j->q8 ? j->isa->finish_q8 : j->isa->finish_f32)(&f);
}

static xrt_tile tile_for(const gemm_job* j, int32_t count, int32_t blocks, void* sums) {
  xrt_tile tile = {0};
  tile.row_count = count;
  tile.block_count = blocks;
  tile.segments = 1;
  tile.flip = j->flip;
  tile.acc = sums;
  return tile;
}

static void constant_task(void* argument, int32_t task) {
  const gemm_job* j = (const gemm_job*)argument;
  const xrt_k_gemm* p = j->p;
  const gemm_place at = locate(j, task);
  float sums[XRT_TILE_SUMS] __attribute__((aligned(64)));
  uint8_t copies[XRT_TILE_ROWS][CHUNK * 4];
  int32_t factor_sums[XRT_TILE_BLOCKS * XRT_TILE_BLOCK];
  const void* rows[1][XRT_TILE_ROWS];
  const int32_t step = p->a_col == 1 && p->k % j->pack_k == 0 ? p->k : CHUNK;
  for (int32_t n = at.panel; n < at.panels; ++n) {
    int32_t blocks;
    const int32_t block = xrt_tile_find_panel(j->isa, j->blocks, n, &blocks);
    const uint8_t* w = at.b + block * j->block_bytes;
    if (j->zero != 0)
      xrt_tile_factor_sums(j->isa, w, j->block_bytes, blocks, (p->k + 3) / 4, factor_sums);
    const int32_t most = j->isa->rows_for[blocks];
    for (int32_t first = at.begin; first < at.end; first += most) {
      const int32_t count = at.end - first < most ? at.end - first : most;
      xrt_tile tile = tile_for(j, count, blocks, sums);
      tile.rows = (const void* const(*)[XRT_TILE_ROWS])rows;
      tile.block_bytes = j->block_bytes;
      for (int32_t k = 0; k < p->k; k += step) {
        const int32_t run = p->k - k < step ? p->k - k : step;
        fetch_rows(j, &at, first, count, most, k, run, copies, rows[0]);
        tile.run = (run + j->pack_k - 1) / j->pack_k;
        tile.w = w + (int64_t)(k / j->pack_k) * j->group_bytes;
        tile.accumulate = k != 0;
        tile.ahead = (const uint8_t*)tile.w + AHEAD;
        tile.ahead_step = j->group_bytes;
        if (j->sum == NULL) {
          j->mac(&tile);
          continue;
        }
        const xrt_tile_finish f = finish_of(j, &at, sums, first, count, block, blocks);
        j->sum(&tile, k + run == p->k ? &f : NULL);
      }
      if (j->sum != NULL) continue;
      finish_tile(j, &at, sums, j->zero != 0 ? factor_sums : NULL, first, count, block, blocks);
    }
  }
}

static void packed_task(void* argument, int32_t task) {
  const gemm_job* j = (const gemm_job*)argument;
  const xrt_k_gemm* p = j->p;
  const gemm_place at = locate(j, task);
  float panel[XRT_TILE_BLOCKS * CHUNK * XRT_TILE_BLOCK] __attribute__((aligned(64)));
  float sums[PACKED_ROWS * XRT_TILE_BLOCKS * XRT_TILE_BLOCK] __attribute__((aligned(64)));
  uint8_t copies[XRT_TILE_ROWS][CHUNK * 4];
  const void* rows[1][XRT_TILE_ROWS];
  for (int32_t n = at.panel; n < at.panels; ++n) {
    int32_t blocks;
    const int32_t block = xrt_tile_find_panel(j->isa, j->blocks, n, &blocks);
    const int32_t most = j->isa->rows_for[blocks], width = blocks * XRT_TILE_BLOCK;
    const int32_t together = (PACKED_ROWS / most - 1) * most; /* a tile may write `most` rows */
    for (int32_t begin = at.begin; begin < at.end; begin += together) {
      const int32_t end = at.end - begin < together ? at.end : begin + together;
      for (int32_t k = 0; k < p->k; k += CHUNK) {
        const int32_t run = p->k - k < CHUNK ? p->k - k : CHUNK;
        fetch_panel(j, &at, block * XRT_TILE_BLOCK, blocks, k, run, panel);
        for (int32_t first = begin; first < end; first += most) {
          const int32_t count = end - first < most ? end - first : most;
          fetch_rows(j, &at, first, count, most, k, run, copies, rows[0]);
          xrt_tile tile = tile_for(j, count, blocks, sums + (int64_t)(first - begin) * width);
          tile.rows = (const void* const(*)[XRT_TILE_ROWS])rows;
          tile.block_bytes = CHUNK * XRT_TILE_BLOCK * 4;
          tile.run = run;
          tile.w = panel;
          tile.accumulate = k != 0;
          j->mac(&tile);
        }
      }
      for (int32_t first = begin; first < end; first += most)
        finish_tile(j, &at, sums + (int64_t)(first - begin) * width, NULL, first,
                    end - first < most ? end - first : most, block, blocks);
    }
  }
}

static xrt_lite_status gemm(const xrt_kernel_call* call, const xrt_tile_isa* isa, int q8) {
  const xrt_k_gemm* p = (const xrt_k_gemm*)call->params;
  const int constant = p->pack_n != 0;
  if (constant && (p->pack_n != XRT_TILE_BLOCK || p->pack_k != (q8 ? 4 : 1)))
    return XRT_LITE_UNSUPPORTED;
  gemm_job j = {0};
  int next = 2;
  j.p = p;
  j.isa = isa;
  j.a = (const uint8_t*)call->operands[0];
  j.b = (const uint8_t*)call->operands[1];
  if (q8) j.scale = (const float*)call->operands[next++];
  if (p->flags & XRT_HAS_BIAS) j.bias = (const uint8_t*)call->operands[next++];
  if (p->flags & XRT_HAS_RESIDUAL) j.r = (const uint8_t*)call->operands[next++];
  j.y = (uint8_t*)call->operands[next];
  j.q8 = q8;
  const int half = constant && !q8 && p->weight_dtype == XRT_LITE_F16;
  j.mac = q8 ? isa->mac_q8 : half ? isa->mac_f16 : isa->mac_f32;
  if (constant && !q8) j.sum = half ? isa->sum_f16 : isa->sum_f32;
  j.element = q8 ? 1 : 4;
  j.pack_k = q8 ? 4 : 1;
  j.group_bytes = XRT_TILE_BLOCK * (half ? 2 : 4);
  j.blocks = (p->n + XRT_TILE_BLOCK - 1) / XRT_TILE_BLOCK;
  j.block_bytes = (int64_t)((p->k + j.pack_k - 1) / j.pack_k) * j.group_bytes;
  j.panels = xrt_tile_panel_count(isa, j.blocks);
  j.flip = q8 && xrt_tile_flips(isa, p->x_dtype) ? 0x80808080u : 0;
  j.zero = q8 ? p->x_zero + (j.flip ? xrt_tile_flip_shift(isa) : 0) : 0;
  j.split = xrt_tile_split_work(call, p->m, isa->rows_for[xrt_tile_panel(isa, j.blocks)], j.panels);
  const int32_t batches = p->batch[0] * p->batch[1] * p->batch[2] * p->batch[3];
  xrt_parallel(call, j.split.row_tasks * j.split.panel_tasks * batches,
               constant ? constant_task : packed_task, &j);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_tile_gemm(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  return gemm(call, isa, 0);
}

xrt_lite_status xrt_tile_gemm_q8(const xrt_kernel_call* call, const xrt_tile_isa* isa) {
  return gemm(call, isa, 1);
}
