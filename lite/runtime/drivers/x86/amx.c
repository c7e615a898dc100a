/* SPDX-License-Identifier: Apache-2.0
 * int8 convolutions and products in AMX tiles.
 *
 * A tile holds 16 rows of 64 bytes. The factors as they are packed for all drivers of tiles.h (16
 * channels, by 4) are the second operand as it should be: a row of a tile is what 16 channels have
 * for four values of K. Rows of the first operand are pixels; where they do not lie side by side in
 * memory, windows are copied side by side, 32 pixels and FETCH bytes at a time.
 *
 * Two by two tiles of sums; they go to memory, from where AVX-512 makes results of them, 64
 * channels at a time. Four times that many channels make a panel, which a task takes over all of
 * its pixels before the next. */
#include <immintrin.h>

#include "../../tiles/panels.h"
#include "q8_rows.h"

#define ROWS 32    /* pixels of a step: two tiles */
#define FETCH 1024 /* bytes of a row at once */
#define QUAD 64    /* channels of a row of sums */
#define PANEL 4    /* quads */
#define TILE_K 16  /* groups of four bytes in a tile's row, at most */
#define GROUP 64   /* bytes of factors: 16 channels by 4 */
#define TILE_BYTES 1024

typedef struct amx_job {
  const uint8_t* x;
  const uint8_t* w;
  const float* scale;
  const int32_t* bias;
  const uint8_t* r;
  uint8_t* y;
  const xrt_k_conv* conv; /* null where rows lie at even distances */
  int64_t x_row, r_row, y_row;
  int32_t rows, k, channels;               /* of a group of channels */
  int32_t groups;                          /* of channels */
  int32_t direct;                          /* rows are read in place */
  int32_t icg, run, run_taps, runs_of_row; /* conv: bytes and taps that lie side by side */
  int64_t ky_bytes, kx_bytes;              /* conv: from a row of taps, from a run to the next */
  int32_t x_signed, x_zero;
  int32_t tile_k;  /* groups of four bytes in a tile's row */
  int32_t chunks;  /* tiles along K */
  int32_t at_once; /* of them, that are fetched together */
  int32_t blocks, quads;
  int64_t block_bytes;
  xrt_q8_rule rule;
  int32_t row_tasks, quad_tasks;
} amx_job;

/* One thread's work space. */
typedef struct amx_space {
  uint8_t rows[ROWS][FETCH + 64];
  int32_t sums[PANEL][ROWS][QUAD];
  int32_t constant[PANEL * QUAD];
  int32_t small; /* xrt_q8_is_small of the panel */
  uint8_t
      tail[TILE_BYTES]; /* the last tile of the last block, where it would end behind the factors */
} amx_space;

/* Copies `count` bytes; up to 63 more of `to` are overwritten. */
static inline void copy_bytes(uint8_t* to, const uint8_t* from, int32_t count) {
  if (count <= 32) {
    const __mmask32 mask = count == 32 ? ~(__mmask32)0 : ((__mmask32)1 << count) - 1;
    _mm256_storeu_si256((__m256i*)(void*)to, _mm256_maskz_loadu_epi8(mask, from));
    return;
  }
  for (; count >= 64; count -= 64, to += 64, from += 64)
    _mm512_storeu_si512(to, _mm512_loadu_si512(from));
  if (count > 0)
    _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(((__mmask64)1 << count) - 1, from));
}

static inline void fill_bytes(uint8_t* to, int32_t value, int32_t count) {
  const __m512i v = _mm512_set1_epi8((char)value);
  for (; count > 0; count -= 64, to += 64) _mm512_storeu_si512(to, v);
}

static inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Bytes of windows: from which on, and how many. A window is a sequence of runs, bytes that lie
 * side by side in the image: a row of it, or a tap. */
typedef struct window_part {
  int32_t ky, kx; /* of the first run */
  int32_t from;   /* its first byte */
  int32_t count;
} window_part;

/* A window that lies inside of the image. */
static inline void fetch_inside(const amx_job* j, const uint8_t* first_tap, const window_part* part,
                                uint8_t* to) {
  const uint8_t* row = first_tap + part->ky * j->ky_bytes;
  int32_t kx = part->kx, from = part->from;
  for (int32_t left = part->count; left > 0; from = 0) {
    const int32_t count = least(left, j->run - from);
    copy_bytes(to, row + kx * j->kx_bytes + from, count);
    to += count;
    left -= count;
    if (++kx == j->runs_of_row) kx = 0, row += j->ky_bytes;
  }
}

/* The same for a whole window whose rows are one run each. */
static inline void fetch_rows(const amx_job* j, const uint8_t* first_tap, uint8_t* to) {
  const int32_t rows = j->conv->kh, run = j->run;
  const int64_t step = j->ky_bytes;
  if (run <= 32) {
    const __mmask32 mask = (__mmask32)(((uint64_t)1 << run) - 1);
    for (int32_t ky = 0; ky < rows; ++ky, to += run, first_tap += step)
      _mm256_storeu_si256((__m256i*)(void*)to, _mm256_maskz_loadu_epi8(mask, first_tap));
    return;
  }
  const int32_t whole = run & ~63;
  const __mmask64 mask = ((__mmask64)1 << (run - whole)) - 1;
  for (int32_t ky = 0; ky < rows; ++ky, to += run, first_tap += step) {
    for (int32_t i = 0; i < whole; i += 64)
      _mm512_storeu_si512(to + i, _mm512_loadu_si512(first_tap + i));
    if (mask) _mm512_storeu_si512(to + whole, _mm512_maskz_loadu_epi8(mask, first_tap + whole));
  }
}

static void fetch_window(const amx_job* j, const uint8_t* image, int32_t y, int32_t x,
                         const window_part* part, uint8_t* to) {
  const xrt_k_conv* p = j->conv;
  int32_t ky = part->ky, kx = part->kx, from = part->from;
  for (int32_t left = part->count; left > 0; from = 0) {
    const int32_t count = least(left, j->run - from);
    const int32_t iy = y + ky * p->dilation_h, ix = x + kx * p->dilation_w;
    if (iy < 0 || iy >= p->ih) {
      fill_bytes(to, j->x_zero, count);
    } else {
      /* Of the run, the part inside of the image. */
      const int32_t inside = least(most(-ix, 0), j->run_taps) * j->icg;
      const int32_t outside = most(least(p->iw - ix, j->run_taps), 0) * j->icg;
      const int32_t a = least(most(inside, from), from + count);
      const int32_t b = most(least(outside, from + count), a);
      if (a > from) fill_bytes(to, j->x_zero, a - from);
      if (b > a)
        copy_bytes(to + (a - from), image + ((int64_t)iy * p->iw + ix) * p->x_pitch + a, b - a);
      if (from + count > b) fill_bytes(to + (b - from), j->x_zero, from + count - b);
    }
    to += count;
    left -= count;
    if (++kx == j->runs_of_row) kx = 0, ++ky;
  }
}

static void fetch_windows(const amx_job* j, amx_space* space, int32_t group, int32_t first,
                          int32_t count, int32_t begin, int32_t end) {
  const xrt_k_conv* p = j->conv;
  const int32_t number = begin / j->run, area = p->oh * p->ow;
  const window_part part = {number / j->runs_of_row, number % j->runs_of_row,
                            begin - number * j->run, end - begin};
  int32_t n = first / area, oy = first % area / p->ow, ox = first % p->ow;
  const int whole_rows = end - begin == j->k && j->runs_of_row == 1;
  const int32_t last_y = p->ih - (p->kh - 1) * p->dilation_h;
  const int32_t last_x = p->iw - (p->kw - 1) * p->dilation_w;
  for (int32_t i = 0; i < count; ++i) {
    const uint8_t* image = j->x + (int64_t)n * p->ih * p->iw * p->x_pitch + group * j->icg;
    const int32_t y = oy * p->stride_h - p->pad_top, x = ox * p->stride_w - p->pad_left;
    const int inside = y >= 0 && y < last_y && x >= 0 && x < last_x;
    if (inside && whole_rows)
      fetch_rows(j, image + ((int64_t)y * p->iw + x) * p->x_pitch, space->rows[i]);
    else if (inside)
      fetch_inside(j, image + ((int64_t)y * p->iw + x) * p->x_pitch, &part, space->rows[i]);
    else
      fetch_window(j, image, y, x, &part, space->rows[i]);
    if (++ox < p->ow) continue;
    ox = 0;
    if (++oy < p->oh) continue;
    oy = 0;
    ++n;
  }
}

/* Bytes [begin, end) of the rows [first, first + count), with zeros behind them. */
static void fetch(const amx_job* j, amx_space* space, int32_t group, int32_t first, int32_t count,
                  int32_t begin, int32_t end) {
  if (j->conv != NULL)
    fetch_windows(j, space, group, first, count, begin, end);
  else
    for (int32_t i = 0; i < count; ++i)
      copy_bytes(space->rows[i], j->x + (first + i) * j->x_row + begin, end - begin);
  if (end == j->k && j->k != j->chunks * j->tile_k * 4)
    for (int32_t i = 0; i < count; ++i)
      _mm512_storeu_si512(space->rows[i] + (end - begin), _mm512_setzero_si512());
}

/* Sums of one or two tiles of rows by one or two blocks of channels. */
typedef struct tile_work {
  const uint8_t* a;
  int64_t a_row;
  const uint8_t *b0, *b1;       /* the blocks' factors */
  const uint8_t *last0, *last1; /* those of the last chunk */
  int64_t a_step, b_step;       /* bytes from a chunk to the next */
  int32_t chunks, accumulate;
  int32_t* sums;
} tile_work;

/* The compiler does not know what memory the instructions of tiles read. */
#define SETTLE_MEMORY() __asm__ volatile("" : : : "memory")

#define MULTIPLY(M, N, DP)                                   \
  {                                                          \
    const int64_t row = QUAD * 4;                            \
    int32_t* const below = t->sums + 16 * QUAD;              \
    const uint8_t *a = t->a, *b0 = t->b0, *b1 = t->b1;       \
    SETTLE_MEMORY();                                         \
    if (t->accumulate) {                                     \
      _tile_loadd(0, t->sums, row);                          \
      if (N == 2) _tile_loadd(1, t->sums + 16, row);         \
      if (M == 2) _tile_loadd(2, below, row);                \
      if (M == 2 && N == 2) _tile_loadd(3, below + 16, row); \
    } else {                                                 \
      _tile_zero(0);                                         \
      if (N == 2) _tile_zero(1);                             \
      if (M == 2) _tile_zero(2);                             \
      if (M == 2 && N == 2) _tile_zero(3);                   \
    }                                                        \
    for (int32_t c = 1;; ++c) {                              \
      if (c == t->chunks) b0 = t->last0, b1 = t->last1;      \
      _tile_loadd(4, a, t->a_row);                           \
      _tile_loadd(6, b0, GROUP);                             \
      DP(0, 4, 6);                                           \
      if (N == 2) {                                          \
        _tile_loadd(7, b1, GROUP);                           \
        DP(1, 4, 7);                                         \
      }                                                      \
      if (M == 2) {                                          \
        _tile_loadd(5, a + 16 * t->a_row, t->a_row);         \
        DP(2, 5, 6);                                         \
        if (N == 2) DP(3, 5, 7);                             \
      }                                                      \
      if (c == t->chunks) break;                             \
      a += t->a_step;                                        \
      b0 += t->b_step;                                       \
      b1 += t->b_step;                                       \
    }                                                        \
    _tile_stored(0, t->sums, row);                           \
    if (N == 2) _tile_stored(1, t->sums + 16, row);          \
    if (M == 2) _tile_stored(2, below, row);                 \
    if (M == 2 && N == 2) _tile_stored(3, below + 16, row);  \
  }

#define MULTIPLY_BY_SIZE(NAME, DP)                                      \
  static void NAME(const tile_work* t, int32_t tiles, int32_t blocks) { \
    if (tiles == 2 && blocks == 2)                                      \
      MULTIPLY(2, 2, DP)                                                \
    else if (tiles == 2)                                                \
      MULTIPLY(2, 1, DP)                                                \
    else if (blocks == 2)                                               \
      MULTIPLY(1, 2, DP)                                                \
    else                                                                \
      MULTIPLY(1, 1, DP)                                                \
  }
MULTIPLY_BY_SIZE(multiply_unsigned, _tile_dpbusd)
MULTIPLY_BY_SIZE(multiply_signed, _tile_dpbssd)

/* The first block of a quad, how many it has, and the channels in them. */
static int32_t blocks_of(const amx_job* j, int32_t quad) {
  return least(j->blocks - quad * XRT_TILE_BLOCKS, XRT_TILE_BLOCKS);
}

/* What is added to the sums of the panel's channels: the bias, and what x's zero point takes. */
static void sum_constants(const amx_job* j, int32_t group, const uint8_t* w, int32_t quad,
                          int32_t quads, int32_t* constant) {
  for (int32_t q = quad; q < quad + quads; ++q, constant += QUAD) {
    int32_t sums[QUAD] = {0};
    if (j->x_zero != 0)
      xrt_tile_factor_sums(&xrt_x86_avx512, w + q * XRT_TILE_BLOCKS * j->block_bytes,
                           j->block_bytes, blocks_of(j, q), (j->k + 3) / 4, sums);
    const int32_t channels = least(j->channels - q * QUAD, QUAD);
    const int32_t* bias = j->bias ? j->bias + group * j->channels + q * QUAD : NULL;
    for (int32_t c = 0; c < QUAD; ++c)
      constant[c] = (int32_t)((bias && c < channels ? (uint32_t)bias[c] : 0u) -
                              (uint32_t)j->x_zero * (uint32_t)sums[c]);
  }
}

typedef struct amx_place {
  const uint8_t* w; /* the group's */
  int32_t group, quad;
  int32_t begin, first, count; /* rows: the task's first, these */
} amx_place;

/* Chunks [begin, end) of the sums of a quad of channels for up to ROWS rows. */
static void sum_quad(const amx_job* j, const amx_place* at, amx_space* space, const uint8_t* rows,
                     int64_t row, int32_t begin, int32_t end, int32_t* sums) {
  tile_work t;
  const int64_t step = (int64_t)j->tile_k * GROUP;
  t.a = rows;
  t.a_row = row;
  t.a_step = (int64_t)j->tile_k * 4;
  t.b_step = step;
  t.chunks = end - begin;
  t.accumulate = begin != 0;
  const int32_t blocks = blocks_of(j, at->quad), first = at->quad * XRT_TILE_BLOCKS;
  const int past_end = end == j->chunks && j->chunks * step != j->block_bytes;
  for (int32_t b = 0; b < blocks; b += 2) {
    const int32_t count = least(blocks - b, 2);
    t.b0 = at->w + (first + b) * j->block_bytes + begin * step;
    t.b1 = count == 2 ? t.b0 + j->block_bytes : t.b0;
    t.last0 = t.b0 + (t.chunks - 1) * step;
    t.last1 = t.b1 + (t.chunks - 1) * step;
    if (past_end && at->group == j->groups - 1 && first + b + count == j->blocks) {
      if (count == 2)
        t.last1 = space->tail;
      else
        t.last0 = t.last1 = space->tail;
    }
    t.sums = sums + b * XRT_TILE_BLOCK;
    if (j->x_signed)
      multiply_signed(&t, at->count > 16 ? 2 : 1, count);
    else
      multiply_unsigned(&t, at->count > 16 ? 2 : 1, count);
  }
}

static void finish_quad(const amx_job* j, const amx_place* at, const amx_space* space,
                        const int32_t* sums, int32_t panel) {
  const int32_t c = at->quad * QUAD, offset = at->group * j->channels + c;
  xrt_q8_rows f;
  f.sums = sums;
  f.sums_row = QUAD;
  f.rows = at->count;
  f.blocks = blocks_of(j, at->quad);
  f.channels = j->channels - c;
  f.constant = space->constant + (at->quad - panel) * QUAD;
  f.scale = j->scale + offset;
  f.r = j->r ? j->r + at->first * j->r_row + offset : NULL;
  f.y = j->y + at->first * j->y_row + offset;
  f.r_row = j->r_row;
  f.y_row = j->y_row;
  f.rule = j->rule;
  f.small = space->small;
  xrt_q8_finish(&f);
}

static void configure(const amx_job* j) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } tiles;
  memset(&tiles, 0, sizeof(tiles));
  tiles.palette = 1;
  for (int t = 0; t < 8; ++t) {
    tiles.rows[t] = t < 6 ? 16 : (uint8_t)j->tile_k;
    tiles.row_bytes[t] = t == 4 || t == 5 ? (uint16_t)(j->tile_k * 4) : 64;
  }
  /* The intrinsic is said to read 8 bytes. */
  __asm__ volatile("" : : "r"(&tiles) : "memory");
  _tile_loadconfig(&tiles);
}

static void amx_task(void* argument, int32_t task) {
  const amx_job* j = (const amx_job*)argument;
  amx_space space __attribute__((aligned(64)));
  amx_place at;
  const int64_t steps = (j->rows + ROWS - 1) / ROWS;
  const int32_t part = task % j->row_tasks;
  at.begin = (int32_t)(steps * part / j->row_tasks) * ROWS;
  const int32_t end = least((int32_t)(steps * (part + 1) / j->row_tasks) * ROWS, j->rows);
  task /= j->row_tasks;
  const int32_t quad_begin = j->quads * (task % j->quad_tasks) / j->quad_tasks;
  const int32_t quad_end = j->quads * (task % j->quad_tasks + 1) / j->quad_tasks;
  at.group = task / j->quad_tasks;
  at.w = j->w + (int64_t)at.group * j->blocks * j->block_bytes;
  const int64_t tail = (int64_t)(j->chunks - 1) * j->tile_k * GROUP;
  if (at.group == j->groups - 1 && tail + j->tile_k * GROUP != j->block_bytes) {
    memset(space.tail, 0, sizeof(space.tail));
    memcpy(space.tail, at.w + (j->blocks - 1) * j->block_bytes + tail,
           (size_t)(j->block_bytes - tail));
  }
  configure(j);
  for (int32_t panel = quad_begin; panel < quad_end; panel += PANEL) {
    const int32_t quads = least(quad_end - panel, PANEL);
    sum_constants(j, at.group, at.w, panel, quads, space.constant);
    space.small = xrt_q8_is_small(&j->rule, j->scale + at.group * j->channels + panel * QUAD,
                                  least(quads * QUAD, j->channels - panel * QUAD));
    for (at.first = at.begin; at.first < end; at.first += ROWS) {
      at.count = least(end - at.first, ROWS);
      /* A tile reads 16 rows. */
      const int in_place = j->direct && at.count % 16 == 0;
      for (int32_t chunk = 0; chunk < j->chunks; chunk += j->at_once) {
        const int32_t last = least(chunk + j->at_once, j->chunks);
        const int32_t k = chunk * j->tile_k * 4;
        const uint8_t* rows = space.rows[0];
        if (in_place)
          rows = j->x + at.first * j->x_row + k;
        else
          fetch(j, &space, at.group, at.first, at.count, k, least(last * j->tile_k * 4, j->k));
        const int64_t row = in_place ? j->x_row : (int64_t)sizeof(space.rows[0]);
        for (at.quad = panel; at.quad < panel + quads; ++at.quad) {
          /* Sums that are done at once all use the same, near memory. */
          int32_t* sums = space.sums[j->at_once < j->chunks ? at.quad - panel : 0][0];
          sum_quad(j, &at, &space, rows, row, chunk, last, sums);
          if (last == j->chunks) finish_quad(j, &at, &space, sums, panel);
        }
      }
    }
  }
  _tile_release();
}

/* Cycles, about: of a thread when the work is cut into that many tasks. */
static int64_t cost_of(const amx_job* j, int32_t threads, int32_t row_tasks, int32_t quad_tasks) {
  const int32_t tasks = row_tasks * quad_tasks * j->groups;
  const int64_t steps = (j->rows + ROWS - 1) / ROWS;
  const int64_t rows = (steps + row_tasks - 1) / row_tasks;
  const int64_t quads = (j->quads + quad_tasks - 1) / quad_tasks;
  const int64_t fetched = j->direct ? 0 : 2 * j->k + 640;
  const int64_t work = rows * (quads * (j->chunks * 140 + 640) + fetched) + quads * j->k * 4 + 1200;
  return (tasks + threads - 1) / threads * work;
}

static void split(amx_job* j, const xrt_kernel_call* call) {
  const int32_t threads = call->threads && call->threads->count > 1 ? call->threads->count : 1;
  const int32_t steps = (j->rows + ROWS - 1) / ROWS;
  j->row_tasks = j->quad_tasks = 1;
  if (threads == 1) return;
  int64_t best = cost_of(j, threads, 1, 1);
  for (int32_t times = 1; times <= 2; ++times) {
    const int32_t by_row = least(steps, times * threads),
                  by_quad = least(j->quads, times * threads);
    const int64_t rows = cost_of(j, threads, by_row, 1), quads = cost_of(j, threads, 1, by_quad);
    if (rows < best) best = rows, j->row_tasks = by_row, j->quad_tasks = 1;
    if (quads < best) best = quads, j->row_tasks = 1, j->quad_tasks = by_quad;
  }
}

/* Tiles along K: of whole rows in place where they come out even. */
static void cut_k(amx_job* j) {
  const int32_t groups = (j->k + 3) / 4;
  j->block_bytes = (int64_t)groups * GROUP;
  if (j->direct) {
    int32_t even = least(groups, TILE_K);
    while (groups % even != 0) --even;
    j->direct = j->k % 4 == 0 && (even == groups || even >= TILE_K / 2);
    j->tile_k = even;
  }
  if (!j->direct) j->tile_k = least(groups, TILE_K);
  j->chunks = (groups + j->tile_k - 1) / j->tile_k;
  j->at_once = FETCH / 4 / j->tile_k;
}

static void run(amx_job* j, const xrt_kernel_call* call) {
  j->blocks = (j->channels + XRT_TILE_BLOCK - 1) / XRT_TILE_BLOCK;
  j->quads = (j->channels + QUAD - 1) / QUAD;
  cut_k(j);
  split(j, call);
  xrt_parallel(call, j->row_tasks * j->quad_tasks * j->groups, amx_task, j);
}

/* The operands, which convolutions and products have alike. */
static void take_operands(amx_job* j, const xrt_kernel_call* call, int32_t flags) {
  int next = 3;
  j->x = (const uint8_t*)call->operands[0];
  j->w = (const uint8_t*)call->operands[1];
  j->scale = (const float*)call->operands[2];
  if (flags & XRT_HAS_BIAS) j->bias = (const int32_t*)call->operands[next++];
  if (flags & XRT_HAS_RESIDUAL) j->r = (const uint8_t*)call->operands[next++];
  j->y = (uint8_t*)call->operands[next];
}

xrt_lite_status xrt_x86_amx_conv_q8(const xrt_kernel_call* call) {
  const xrt_k_conv* p = (const xrt_k_conv*)call->params;
  if (p->pack_n != XRT_TILE_BLOCK || p->pack_k != 4) return XRT_LITE_UNSUPPORTED;
  amx_job j = {0};
  take_operands(&j, call, p->flags);
  const int32_t icg = p->ic / p->groups;
  const int even = p->kh == 1 && p->kw == 1 && p->stride_h == 1 && p->stride_w == 1 &&
                   p->pad_top == 0 && p->pad_left == 0 && p->oh == p->ih && p->ow == p->iw &&
                   p->groups == 1;
  j.conv = even ? NULL : p;
  j.direct = even;
  j.icg = icg;
  j.run_taps = p->dilation_w == 1 && p->x_pitch == icg ? p->kw : 1;
  j.run = j.run_taps * icg;
  j.runs_of_row = p->kw / j.run_taps;
  j.ky_bytes = (int64_t)p->dilation_h * p->iw * p->x_pitch;
  j.kx_bytes = (int64_t)p->dilation_w * p->x_pitch;
  j.x_row = p->x_pitch;
  j.r_row = p->r_pitch;
  j.y_row = p->y_pitch;
  j.rows = p->n * p->oh * p->ow;
  j.k = p->kh * p->kw * icg;
  j.channels = p->oc / p->groups;
  j.groups = p->groups;
  j.x_signed = p->x_dtype == XRT_LITE_I8;
  j.x_zero = p->x_zero;
  j.rule = xrt_q8_rule_of(p->activation == XRT_ACT_CLIP, p->lo, p->hi, p->y_dtype, p->y_zero,
                          p->r_dtype, p->r_zero, p->r_scale);
  run(&j, call);
  return XRT_LITE_OK;
}

xrt_lite_status xrt_x86_amx_gemm_q8(const xrt_kernel_call* call) {
  const xrt_k_gemm* p = (const xrt_k_gemm*)call->params;
  /* Rare: rows that are columns in memory, batches. */
  if (p->a_col != 1 || p->batch[0] != 1 || p->batch[1] != 1 || p->batch[2] != 1 || p->batch[3] != 1)
    return xrt_tile_gemm_q8(call, &xrt_x86_avx512);
  if (p->pack_n != XRT_TILE_BLOCK || p->pack_k != 4) return XRT_LITE_UNSUPPORTED;
  amx_job j = {0};
  take_operands(&j, call, p->flags);
  j.direct = 1;
  j.x_row = p->a_row;
  j.r_row = j.y_row = p->y_row;
  j.rows = p->m;
  j.k = p->k;
  j.channels = p->n;
  j.groups = 1;
  j.x_signed = p->x_dtype == XRT_LITE_I8;
  j.x_zero = p->x_zero;
  j.rule = xrt_q8_rule_of(p->activation == XRT_ACT_CLIP, p->lo, p->hi, p->y_dtype, p->y_zero,
                          p->r_dtype, p->r_zero, p->r_scale);
  run(&j, call);
  return XRT_LITE_OK;
}
