/* SPDX-License-Identifier: Apache-2.0
 * What convolutions and products share: blocks of channels to panels, and panels' sums. */
#ifndef XRT_LITE_PANELS_H_
#define XRT_LITE_PANELS_H_

#include "tiles.h"

#define XRT_TILE_SUMS (XRT_TILE_ROWS * XRT_TILE_BLOCK * XRT_TILE_BLOCKS)

/* How many of the `left` blocks the next tile takes: panels of nearly equal width, none of which is
 * narrow while another is wide. */
static inline int32_t xrt_tile_panel(const xrt_tile_isa* isa, int32_t left) {
  const int32_t most = isa->max_blocks;
  if (left <= most) return left;
  return left < 2 * most ? (left + 1) / 2 : most;
}

/* The panel of that number: its first block, and its blocks. */
static inline int32_t xrt_tile_find_panel(const xrt_tile_isa* isa, int32_t blocks, int32_t number,
                                          int32_t* count) {
  int32_t first = 0;
  *count = xrt_tile_panel(isa, blocks);
  for (; number > 0; --number) {
    first += *count;
    *count = xrt_tile_panel(isa, blocks - first);
  }
  return first;
}

static inline int32_t xrt_tile_panel_count(const xrt_tile_isa* isa, int32_t blocks) {
  int32_t panels = 0;
  for (; blocks > 0; ++panels) blocks -= xrt_tile_panel(isa, blocks);
  return panels;
}

/* sums[channel] of int8 factors: tiles of one row that is all ones. `groups` of four factors. */
static inline void xrt_tile_factor_sums(const xrt_tile_isa* isa, const void* w, int64_t block_bytes,
                                        int32_t block_count, int32_t groups, int32_t* sums) {
  uint8_t ones[512];
  const void* rows[1][XRT_TILE_ROWS];
  memset(ones, 1, sizeof(ones));
  for (int i = 0; i < XRT_TILE_ROWS; ++i) rows[0][i] = ones;
  const int32_t step = (int32_t)sizeof(ones) / 4;
  for (int32_t k = 0; k < groups; k += step) {
    const xrt_tile tile = {(const void* const(*)[XRT_TILE_ROWS])rows,
                           1,
                           block_count,
                           1,
                           groups - k < step ? groups - k : step,
                           (const uint8_t*)w + (int64_t)k * XRT_TILE_BLOCK * 4,
                           block_bytes,
                           0,
                           0,
                           k != 0,
                           sums,
                           NULL,
                           0};
    isa->mac_q8(&tile);
  }
}

/* Tasks of about equal size: rows are cut first, panels where there are few rows. */
typedef struct xrt_tile_split {
  int32_t row_tasks, rows_each, panel_tasks, panels_each;
} xrt_tile_split;

static inline xrt_tile_split xrt_tile_split_work(const xrt_kernel_call* call, int32_t rows,
                                                 int32_t tile_rows, int32_t panels) {
  const int32_t threads = call->threads && call->threads->count > 1 ? call->threads->count : 1;
  const int32_t tiles = (rows + tile_rows - 1) / tile_rows;
  const int32_t wanted = threads == 1 ? 1 : 4 * threads;
  int32_t row_tasks = tiles / 8 < wanted ? tiles / 8 : wanted;
  if (row_tasks < 1) row_tasks = 1;
  const int32_t tiles_each = (tiles + row_tasks - 1) / row_tasks;
  row_tasks = (tiles + tiles_each - 1) / tiles_each;
  int32_t panel_tasks = (wanted + row_tasks - 1) / row_tasks;
  if (panel_tasks > panels) panel_tasks = panels;
  const int32_t panels_each = (panels + panel_tasks - 1) / panel_tasks;
  const xrt_tile_split split = {row_tasks, tiles_each * tile_rows,
                                (panels + panels_each - 1) / panels_each, panels_each};
  return split;
}

#endif /* XRT_LITE_PANELS_H_ */
