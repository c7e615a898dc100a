// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/warpgroup_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engines/cuda/tiles.h"

namespace xrt::cuda {
namespace {

// Of rows in shared memory that two quads of threads read at a time.
constexpr int kStagedGap = 64;
// The instructions want the pattern in which pieces are exchanged to begin at such an address.
constexpr int kAlignment = 1024;

// In shared memory a row has bk bytes, one behind the other, in pieces of 16 bytes. The
// instructions read eight rows of a piece at a time: so that these lie in different banks, the
// number of a piece is XORed with bits of the row's, as the hardware does it with bits of an
// address.
constexpr const char* kSums = R"cuda(
template <int bk> __device__ inline int piece_place(int row, int piece) {
  return row * bk + ((bk == 128 ? piece ^ (row & 7) : piece ^ (row >> 1 & 3)) * 16);
}

// The instructions give a thread two of every eight columns: those lie there that neighbour in the
// result.
template <int own> __device__ inline int column_of(int n) {
  return n / (4 * own) * (4 * own) + n / 2 % 4 * own + n / 8 % (own / 2) * 2 + n % 2;
}

template <int columns, bool is_signed> struct WarpgroupCore;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Where a factor lies, as PTX's matrix descriptor: the address, the distance of groups of eight
// rows, and the pattern of exchange, in units of 16 bytes.
template <int bk> __device__ inline u64 factor_at(const u8* memory) {
  const u64 address = (unsigned)__cvta_generic_to_shared(memory) & 0x3ffffu;
  return address >> 4 | (u64)1 << 16 | (u64)(bk / 2) << 32 | (u64)(bk == 128 ? 1 : 2) << 62;
}
__device__ inline u64 next_factor(u64 factor) { return factor + 2; }
// What threads wrote to shared memory is seen by the instructions.
__device__ inline void show_stage() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void begin_sums() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void close_sums() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait_sums() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// The compiler does not know that instructions under way write sums.
__device__ inline void hold(int& sum) { asm volatile("" : "+r"(sum)::"memory"); }
#else
template <int bk> struct Factor { const u8* memory; int from; };
template <int bk> __device__ inline Factor<bk> factor_at(const u8* memory) { return {memory, 0}; }
template <int bk> __device__ inline Factor<bk> next_factor(Factor<bk> factor) {
  return {factor.memory, factor.from + 32};
}
template <int bk> __device__ inline u8 byte_of(const Factor<bk>& factor, int row, int k) {
  return factor.memory[piece_place<bk>(row, (factor.from + k) / 16) + k % 16];
}
template <int columns, bool is_signed> struct WarpgroupCore {  // as the instruction does
  template <int bk> static __device__ inline void add(int* c, Factor<bk> a, Factor<bk> b) {
    const int lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + lane / 4;
#pragma unroll 1
    for (int i = 0; i < columns / 2; ++i) {
      const int r = row + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
#pragma unroll 1
      for (int k = 0; k < 32; ++k) {
        const u8 x = byte_of(a, r, k);
        c[i] += (is_signed ? (int)(i8)x : (int)x) * (int)(i8)byte_of(b, n, k);
      }
    }
  }
};
__device__ inline void show_stage() {}
__device__ inline void begin_sums() {}
__device__ inline void close_sums() {}
__device__ inline void wait_sums() {}
__device__ inline void hold(int&) {}
#endif

template <class P, class Columns, class Read, class Finish>
__device__ inline void warpgroup_sums(const u8* x, const u8* w, const u8* rest,
                                      const Columns& columns, const Read& read,
                                      const Finish& finish) {
  enum {
    bm = P::bm, bn = P::bn, bk = P::bk, pieces = bk / 16, threads = P::groups * 128,
    stage_bytes = (bm + bn) * bk, la = bm * pieces / threads,
    lb = (bn * pieces + threads - 1) / threads, all = (P::k + 15) / 16,
    steps = (all + pieces - 1) / pieces, mt = bm / P::groups / 64,
    ring_bytes = P::stages * stage_bytes,
    // A thread has so many neighbouring columns of a row.
    own = bn < 64 ? bn / 4 : 16,
    // A stage lies within one position of the window.
    tap_by_tap = P::window && P::c % bk == 0
  };
  enum {
    staged_pitch = bn % 128 == 0 ? bn + kStagedGap : bn,
    staged_bytes = P::staged ? bm * staged_pitch : 0
  };
  u8* memory = INTEGER_MEMORY((ring_bytes + staged_bytes + kWarpgroupAlignment));
  memory += (kWarpgroupAlignment - ((u64)memory & (kWarpgroupAlignment - 1))) & (kWarpgroupAlignment - 1);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int tiles_n = (P::n + bn - 1) / bn;
  const int m0 = (int)(blockIdx.x / tiles_n) * bm, n0 = (int)(blockIdx.x % tiles_n) * bn;
  const int group = warp / 4;
  // Threads keep to their piece; their rows lie threads / pieces apart.
  const int piece = tid % pieces;

  IntegerRow rows[la];
#pragma unroll
  for (int i = 0; i < la; ++i) {
    start_row<P>(rows[i], m0 + tid / pieces + i * (threads / pieces));
    if constexpr (tap_by_tap) rows[i].from += ((i64)rows[i].h * P::iw + rows[i].w) * P::c + piece * 16;
  }

  auto fetch = [&](int step) {
    u8* const to = memory + step % P::stages * stage_bytes;
    const int k0 = step * bk;
    int dh = 0, dw = 0, further = 0;
    if constexpr (tap_by_tap) {
      const int tap = k0 / P::c;
      dh = tap / P::kw * P::dh, dw = tap % P::kw * P::dw;
      further = (dh * P::iw + dw) * P::c + k0 % P::c;
    }
#pragma unroll
    for (int i = 0; i < la; ++i) {
      u8* const place = to + piece_place<bk>(tid / pieces + i * (threads / pieces), piece);
      const u8* from;
      if constexpr (tap_by_tap) {
        const bool inside = (unsigned)(rows[i].h + dh) < (unsigned)P::ih &&
                            (unsigned)(rows[i].w + dw) < (unsigned)P::iw;
        from = inside ? x + rows[i].from + further : nullptr;
      } else {
        from = find_terms<P>(x, rows[i], k0 + piece * 16);
      }
      if (from) {
        stage<16>(place, from);
      } else {
        const int zeros = (int)((unsigned)(P::x_zero & 255) * 0x01010101u);
        *(Word4*)place = Word4{{zeros, zeros, zeros, zeros}};
      }
    }
#pragma unroll
    for (int i = 0; i < lb; ++i) {
      const int e = tid + i * threads;
      if ((bn * pieces) % threads != 0 && e >= bn * pieces) break;
      const int eight = e / (8 * pieces), of = e / 8 % pieces, n = e % 8;
      u8* const place = to + bm * bk + piece_place<bk>(eight * 8 + n, of);
      const int from_n = n0 + column_of<own>(eight * 8 + n), from_k = step * pieces + of;
      if (from_n < P::n && from_k < all) {
        stage<16>(place, w + ((i64)from_n * all + from_k) * 16);
      } else {
        *(Word4*)place = Word4{{0, 0, 0, 0}};
      }
    }
  };

  int sums[mt][bn / 2];
#pragma unroll
  for (int i = 0; i < mt; ++i)
#pragma unroll
    for (int j = 0; j < bn / 2; ++j) sums[i][j] = no_sum<P>();
#pragma unroll
  for (int s = 0; s < P::stages - 1; ++s) {
    if (s < steps) fetch(s);
    // What is read behind the sums is on its way meanwhile.
    if constexpr (P::staged) {
      if (s == P::stages - 2) {
        for (int e = tid; e < bm * bn / 16; e += threads) {
          const int row = e / (bn / 16), n = e % (bn / 16) * 16;
          if (m0 + row < P::m && n0 + n < P::n)
            stage<16>(memory + ring_bytes + row * staged_pitch + n, rest + (i64)(m0 + row) * P::n + n0 + n);
        }
      }
    }
    close_stage();
  }
  for (int step = 0; step < steps; ++step) {
    wait_stages<P::stages - 2>();
    show_stage();
    wait_sums();      // of the stage before, which is free then
    __syncthreads();  // and this one is there
    const u8* const here = memory + step % P::stages * stage_bytes;
#pragma unroll
    for (int i = 0; i < mt; ++i)
#pragma unroll
      for (int j = 0; j < bn / 2; ++j) hold(sums[i][j]);
    begin_sums();
    auto right = factor_at<bk>(here + bm * bk);
#pragma unroll
    for (int s = 0; s < bk / 32; ++s) {
#pragma unroll
      for (int i = 0; i < mt; ++i) {
        auto left = factor_at<bk>(here + (group * mt + i) * 64 * bk);
#pragma unroll
        for (int j = 0; j < s; ++j) left = next_factor(left);
        WarpgroupCore<bn, P::x_signed != 0>::add(sums[i], left, right);
      }
      right = next_factor(right);
    }
    close_sums();
    if (step + P::stages - 1 < steps) fetch(step + P::stages - 1);
    close_stage();
  }
  wait_sums();
  wait_stages<0>();
#pragma unroll
  for (int i = 0; i < mt; ++i)
#pragma unroll
    for (int j = 0; j < bn / 2; ++j) hold(sums[i][j]);
  if constexpr (P::staged) __syncthreads();  // what others copied is there
#pragma unroll
  for (int i = 0; i < mt; ++i) {
    const int first = m0 + (group * mt + i) * 64 + warp % 4 * 16 + lane / 4;
#pragma unroll
    for (int from = 0; from < bn; from += 4 * own) {
      const int n = n0 + from + lane % 4 * own;
      if (n >= P::n) continue;
      const decltype(columns(0)) of = columns(n);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first + half * 8;
        if (row >= P::m) continue;
        int v[own];
#pragma unroll
        for (int j = 0; j < own; ++j)
          v[j] = sums[i][(from / 8 + j / 2) * 4 + half * 2 + j % 2];
        finish(row, n, v, of,
               read(row, n, memory + ring_bytes + (row - m0) * staged_pitch + (n - n0)));
      }
    }
  }
}
)cuda";

constexpr auto kTiles = std::to_array<WarpgroupTile>({{128, 128, 2, 128, 3},
                                                      {256, 128, 2, 128, 4},
                                                      {128, 256, 2, 128, 4},
                                                      {256, 128, 4, 64, 3},
                                                      {256, 64, 2, 64, 3},
                                                      {128, 128, 2, 64, 3},
                                                      {128, 256, 2, 64, 3},
                                                      {128, 64, 2, 128, 3},
                                                      {128, 64, 2, 64, 3},
                                                      {64, 128, 1, 128, 4},
                                                      {64, 64, 1, 128, 4},
                                                      {64, 32, 1, 128, 6}});

double clocks(const WarpgroupTile& t, std::int64_t m, std::int64_t n, std::int64_t k) {
  // Bytes that a processor gets from the cache, and pairs that it multiplies, in a clock.
  constexpr double kFetched = 24, kMultiplied = 4096;
  const auto blocks = static_cast<double>(tiles_of(m, t.bm) * tiles_of(n, t.bn));
  const auto steps = static_cast<double>(tiles_of(k, t.bk));
  const double step = std::max(static_cast<double>(t.bm + t.bn) * t.bk / kFetched,
                               static_cast<double>(t.bm) * t.bn * t.bk / kMultiplied);
  return clocks_of(t, blocks, steps, static_cast<double>(t.bm) * t.bn / t.threads(),
                   {.step = step,
                    .wait = std::max(800.0 / (t.stages - 1), step),
                    .end = 200 + static_cast<double>(t.bm) * t.bn / 6});
}

}  // namespace

std::string warpgroup_source() {
  return fmt::format("enum {{ kStagedGap = {}, kWarpgroupAlignment = {} }};\n", kStagedGap,
                     kAlignment) +
         kSums;
}

std::string warpgroup_core(int columns, bool x_signed) {
  const int sums = columns / 2;
  std::string places, operands;
  for (int i = 0; i < sums; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ",", i);
    operands += fmt::format("{}\"+r\"(c[{}])", i == 0 ? "" : ", ", i);
  }
  return fmt::format(
      "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n"
      "template <> struct WarpgroupCore<{0}, {1}> {{\n"
      "static __device__ inline void add(int* c, u64 a, u64 b) {{\n"
      "asm volatile(\"{{.reg .pred p; setp.eq.s32 p, 0, 0; "
      "wgmma.mma_async.sync.aligned.m64n{0}k32.s32.{2}.s8 {{{3}}}, %{4}, %{5}, p;}}\"\n"
      ": {6} : \"l\"(a), \"l\"(b));\n"
      "}}\n}};\n#endif\n",
      columns, x_signed, x_signed ? "s8" : "u8", places, sums, sums + 1, operands);
}

int WarpgroupTile::shared_bytes(bool staged) const {
  const int pitch = bn % 128 == 0 ? bn + kStagedGap : bn;
  return stages * (bm + bn) * bk + (staged ? bm * pitch : 0) + kAlignment;
}

std::vector<WarpgroupTile> warpgroup_tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  return fastest_first(kTiles, [&](const WarpgroupTile& tile) { return clocks(tile, m, n, k); });
}

}  // namespace xrt::cuda
