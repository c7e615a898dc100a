// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/integer_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/cuda/source.h"
#include "engines/cuda/tiles.h"

namespace xrt::cuda {
namespace {

// Rows of a stage begin in different banks.
constexpr int kGap = 16;
// Sums leave through shared memory, 16 rows of each warp at a time.
constexpr int kSumGap = 8;

constexpr const char* kSums = R"cuda(
struct alignas(16) Word4 { int v[4]; };
struct alignas(8) Word2 { int v[2]; };
#ifdef __CUDACC_RTC__
extern __shared__ Word4 integer_memory_[];
#define INTEGER_MEMORY(bytes) (u8*)integer_memory_
#else
#define INTEGER_MEMORY(bytes) memory_of<bytes>()
template <int bytes> inline u8* memory_of() {
  static Word4 memory[bytes / 16];
  return (u8*)memory;
}
#endif

// Where the window of a row begins, and where its picture does.
struct IntegerRow { int h, w; i64 from; };
template <class P> __device__ inline void start_row(IntegerRow& row, int m) {
  if (m >= P::m) {
    row.h = -(1 << 28), row.w = 0, row.from = -1;
    return;
  }
  if constexpr (P::window) {
    const int w = m % P::ow, h = m / P::ow % P::oh, n = m / P::ow / P::oh;
    row.h = h * P::sh - P::ph, row.w = w * P::sw - P::pw;
    row.from = (i64)n * (P::ih * P::iw) * P::c;
  } else {
    row.from = (i64)m * P::k;
  }
}
template <class P> __device__ inline const u8* find_terms(const u8* x, const IntegerRow& row, int k) {
  if constexpr (P::window) {
    const int c = k % P::c, at = k / P::c;
    const int h = row.h + at / P::kw * P::dh, w = row.w + at % P::kw * P::dw;
    const bool inside = k < P::k && (unsigned)h < (unsigned)P::ih && (unsigned)w < (unsigned)P::iw;
    return inside ? x + row.from + ((i64)h * P::iw + w) * P::c + c : nullptr;
  } else {
    return k < P::k && row.from >= 0 ? x + row.from + k : nullptr;
  }
}

// Sums that are small begin with the bits of a float whose last ones count: conversions take eight
// times as long as sums do.
template <class P> __device__ inline int no_sum() { return P::small ? 0x4b400000 : 0; }
template <class P> __device__ inline float number_of_sum(int sum) {
  return P::small ? __uint_as_float((unsigned)sum) - 12582912.0f : (float)sum;
}

// What a thread has of 16 rows and 8 columns.
__device__ inline void put_sums(int* to, int pitch, const int* sums) {
  *(Word2*)to = Word2{{sums[0], sums[1]}};
  *(Word2*)(to + 8 * pitch) = Word2{{sums[2], sums[3]}};
}
// Four columns of some of `count` rows are finished; what several rows read is under way together.
// sums_of(at): of row row_of(at).
template <class P, int count, int distance, class Row, class Sums, class Columns, class Read,
          class Finish>
__device__ inline void finish_columns(int start, int n, const Row& row_of, const Sums& sums_of,
                                      const Columns& columns, const Read& read,
                                      const Finish& finish) {
  enum { batch = 8 };
  if (n >= P::n) return;
  const decltype(columns(0)) of = columns(n);
  for (int from = start; from < count; from += batch * distance) {
    decltype(read(0, 0)) theirs[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int at = from + b * distance;
      if (at < count && row_of(at) < P::m) theirs[b] = read(row_of(at), n);
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int at = from + b * distance;
      if (at >= count || row_of(at) >= P::m) continue;
      const Word4 v = sums_of(at);
      finish(row_of(at), n, v.v, of, theirs[b]);
    }
  }
}

template <class P, class Columns, class Read, class Finish>
__device__ inline void integer_sums(const u8* x, const u8* w, const Columns& columns,
                                    const Read& read, const Finish& finish) {
  enum {
    bm = P::bm, bn = P::bn, bk = P::bk, pieces = bk / 16,
    threads = P::wm * P::wn * P::wk * 32, pitch = bk + kGap, stage_bytes = (bm + bn) * pitch,
    la = (bm * pieces + threads - 1) / threads, lb = (bn * pieces + threads - 1) / threads,
    all = (P::k + 15) / 16, steps = (all + pieces - 1) / pieces,
    mt = bm / P::wm / 16, nt = bn / P::wn / 8,
    rows_out = P::wm * 16, sum_pitch = bn + kSumGap,
    sum_bytes = P::wk * rows_out * sum_pitch * 4, ring_bytes = P::stages * stage_bytes,
    zero = P::x_zero
  };
  typedef TensorCore<0, P::x_signed != 0> Core;
  u8* const memory = INTEGER_MEMORY((sum_bytes > ring_bytes ? sum_bytes : ring_bytes));
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;
  // Blocks that run together share columns and rows: as many tiles of columns as there are go first.
  const int tiles_n = (P::n + bn - 1) / bn;
  const int m0 = (int)(blockIdx.x / tiles_n) * bm, n0 = (int)(blockIdx.x % tiles_n) * bn;
  const int warp_m = warp % P::wm, warp_n = warp / P::wm % P::wn, warp_k = warp / P::wm / P::wn;

  IntegerRow rows[la];
#pragma unroll
  for (int i = 0; i < la; ++i) start_row<P>(rows[i], m0 + (tid + i * threads) / pieces);

  auto fetch = [&](int step) {
    u8* const to = memory + step % P::stages * stage_bytes;
#pragma unroll
    for (int i = 0; i < la; ++i) {
      const int e = tid + i * threads;
      if ((bm * pieces) % threads != 0 && e >= bm * pieces) break;
      const int k = (step * pieces + e % pieces) * 16;
#pragma unroll
      for (int u = 0; u < 16; u += P::unit) {
        u8* const place = to + e / pieces * pitch + e % pieces * 16 + u;
        const u8* from = find_terms<P>(x, rows[i], k + u);
        if (from) {
          stage<P::unit>(place, from);
        } else {
          for (int j = 0; j < P::unit / 4; ++j)
            ((unsigned*)place)[j] = (unsigned)(zero & 255) * 0x01010101u;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < lb; ++i) {
      const int e = tid + i * threads;
      if ((bn * pieces) % threads != 0 && e >= bn * pieces) break;
      const int eight = e / (8 * pieces), piece = e / 8 % pieces, n = e % 8;
      u8* const place = to + (bm + eight * 8 + n) * pitch + piece * 16;
      const int from_n = n0 + eight * 8 + n, from_k = step * pieces + piece;
      if (from_n < P::n && from_k < all) {
        stage<16>(place, w + ((i64)from_n * all + from_k) * 16);
      } else {
        *(Word4*)place = Word4{{0, 0, 0, 0}};
      }
    }
  };

  int sums[mt][nt][4];
#pragma unroll
  for (int i = 0; i < mt; ++i)
#pragma unroll
    for (int j = 0; j < nt; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[i][j][c] = warp_k == 0 ? no_sum<P>() : 0;
#pragma unroll
  for (int s = 0; s < P::stages - 1; ++s) {
    if (s < steps) fetch(s);
    close_stage();
  }
  for (int step = 0; step < steps; ++step) {
    wait_stages<P::stages - 2>();
    __syncthreads();  // this stage is there, and the one before it is free
    if (step + P::stages - 1 < steps) fetch(step + P::stages - 1);
    close_stage();
    const u8* const here = memory + step % P::stages * stage_bytes;
#pragma unroll
    for (int s = 0; s < bk / 32 / P::wk; ++s) {
      const int k = (s * P::wk + warp_k) * 32;
      unsigned l[mt][4], r[nt / 2][4];  // r[j]: two eights of columns
#pragma unroll
      for (int i = 0; i < mt; ++i)
        load_rows(l[i], here, (warp_m * mt * 16 + i * 16 + lane % 16) * pitch + k + lane / 16 * 16);
#pragma unroll
      for (int j = 0; j < nt / 2; ++j)
        load_rows(r[j], here,
                  (bm + warp_n * nt * 8 + j * 16 + lane / 16 * 8 + lane % 8) * pitch + k +
                      lane / 8 % 2 * 16);
#pragma unroll
      for (int i = 0; i < mt; ++i)
#pragma unroll
        for (int j = 0; j < nt; ++j) Core::add(sums[i][j], l[i], r[j / 2] + j % 2 * 2);
    }
  }
  wait_stages<0>();
  int* const out = (int*)memory;
#pragma unroll
  for (int i = 0; i < mt; ++i) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < nt; ++j)
      put_sums(out + (warp_k * rows_out + warp_m * 16 + g) * sum_pitch + (warp_n * nt + j) * 8 + 2 * t,
               sum_pitch, sums[i][j]);
    __syncthreads();
    auto row_of = [&](int at) { return m0 + (at / 16 * mt + i) * 16 + at % 16; };
    // A thread keeps to its columns where the threads are so many.
    enum { fours = bn / 4, distance = threads % fours == 0 ? threads / fours : rows_out };
    for (int e = tid; e < (threads % fours == 0 ? threads : rows_out * fours); e += threads) {
      const int c = e % fours * 4;
      auto sums_of = [&](int at) {
        Word4 v = *(const Word4*)(out + at * sum_pitch + c);
#pragma unroll
        for (int s = 1; s < P::wk; ++s) {
          const Word4 more = *(const Word4*)(out + (s * rows_out + at) * sum_pitch + c);
          for (int j = 0; j < 4; ++j) v.v[j] += more.v[j];
        }
        return v;
      };
      finish_columns<P, rows_out, distance>(
          e / fours, n0 + c, row_of, sums_of, columns,
          [&](int row, int n) { return read(row, n, nullptr); }, finish);
    }
  }
}
)cuda";

constexpr auto kTiles = std::to_array<IntegerTile>({{256, 128, 4, 2, 1, 64, 4},
                                                    {128, 128, 2, 4, 1, 128, 3},
                                                    {128, 64, 2, 2, 1, 128, 3},
                                                    {64, 128, 2, 4, 1, 64, 4},
                                                    {64, 64, 2, 2, 1, 128, 4},
                                                    {128, 128, 2, 4, 1, 64, 4},
                                                    {256, 64, 4, 2, 1, 64, 4},
                                                    {128, 64, 4, 2, 1, 64, 4},
                                                    {64, 64, 2, 2, 2, 64, 4},
                                                    {64, 32, 2, 1, 4, 128, 3},
                                                    {32, 64, 1, 2, 4, 128, 3},
                                                    {32, 32, 1, 1, 4, 128, 5},
                                                    {16, 32, 1, 1, 4, 128, 6},
                                                    {16, 16, 1, 1, 8, 256, 4}});

// What a processor moves and multiplies, and how long a block waits for its stages one after the
// other.
double clocks(const IntegerTile& t, std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto blocks = static_cast<double>(tiles_of(m, t.bm) * tiles_of(n, t.bn));
  const auto steps = static_cast<double>(tiles_of(k, t.bk));
  const int warps = t.threads() / 32, mt = t.bm / t.wm / 16, nt = t.bn / t.wn / 8;
  const double pieces = static_cast<double>(t.bm + t.bn) * t.bk / 16 / t.threads();
  const double issued = pieces * 25 + t.bk / 32.0 / t.wk * (4 * mt + 2 * nt + 2 * mt * nt) + 20;
  return clocks_of(
      t, blocks, steps, mt * nt * 4,
      {.step = std::max(issued * warps / 4, static_cast<double>(t.bm + t.bn) * t.bk / 48),
       .wait = std::max(600.0 / (t.stages - 1), issued),
       .end = 400 + static_cast<double>(t.bm) * t.bn * (4 + t.wk) / 100});
}

}  // namespace

std::string integer_source() {
  return std::string(tensor_core_source()) +
         fmt::format("enum {{ kGap = {}, kSumGap = {} }};\n", kGap, kSumGap) + kSums;
}

int IntegerTile::shared_bytes() const {
  const int ring = stages * (bm + bn) * (bk + kGap);
  const int sums = wk * wm * 16 * (bn + kSumGap) * 4;
  return std::max(ring, sums);
}

std::vector<IntegerTile> integer_tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  return fastest_first(kTiles, [&](const IntegerTile& tile) { return clocks(tile, m, n, k); });
}

}  // namespace xrt::cuda
