// SPDX-License-Identifier: Apache-2.0
// Sums of products on tensor cores: int8, float16 and TF32. A factor that lies in memory is packed
// by 8 columns and 16 bytes of terms; of the left side, too, 16 bytes of terms are one piece.
#include "device/cuda/source.h"
#include "targets/cuda.h"

namespace xrt::lite {

const char* cuda_mma_source();

namespace {

// A block has wm x wn warps over a tile of bm x bn outputs, and wk such sets, each of which has its
// share of the terms. `stages` pieces of bk bytes of terms are in shared memory or on their way
// there. At the end the warps' sums meet in shared memory, so that outputs are written row by row.
//
// The left side is copied as it is where `unit` bytes lie together (cp.async); float32 that becomes
// float16, and single bytes, go through registers (`unit` elements are looked up at a time).
constexpr const char* kSums = R"cuda(
template <class P> __device__ inline void store_four(const Args& a, int row, int n, int count,
                                                     const float* v) {
  if constexpr (P::wide) {
    float4_ r, b, to;
    for (int j = 0; j < 4; ++j) r.v[j] = b.v[j] = 0.0f;
    if (P::bias) b = *(const float4_*)(at<const float>(a, 2) + n);
    if (P::residual) r = *(const float4_*)(at<const float>(a, P::bias ? 3 : 2) + P::r_at(row) + n);
    for (int j = 0; j < 4; ++j) {
      to.v[j] = P::alpha() != 1.0f ? v[j] * P::alpha() : v[j];
      if (P::bias) to.v[j] += b.v[j];
      if (P::residual) to.v[j] += r.v[j];
      if (P::clips) to.v[j] = clip(to.v[j], P::lo(), P::hi());
    }
    *(float4_*)(at<float>(a, P::y) + P::y_at(row) + n) = to;
  } else {
    for (int j = 0; j < 4; ++j)
      if (j < count) store_sum<P>(a, row, n + j, v[j]);
  }
}

template <class P> __device__ inline void store_four(const Args& a, int row, int n, int count,
                                                     const int* v) {
  if constexpr (P::wide) {
    unsigned residual = 0, word = 0;
    if (P::residual)
      residual = *(const unsigned*)(at<const u8>(a, P::bias ? 4 : 3) + P::r_at(row) + n);
    const float4_ scale = *(const float4_*)(at<const float>(a, 2) + n);
    int4_ bias;
    if (P::bias) bias = *(const int4_*)(at<const int>(a, 3) + n);
    for (int j = 0; j < 4; ++j) {
      const typename P::R r = (typename P::R)(residual >> 8 * j);
      word |= (unsigned)rounded_q8<P>(v[j], scale.v[j], P::bias ? bias.v[j] : 0, (int)r) << 8 * j;
    }
    *(unsigned*)(at<u8>(a, P::y) + P::y_at(row) + n) = word;
  } else {
    for (int j = 0; j < 4; ++j)
      if (j < count) store_q8<P>(a, row, n + j, v[j]);
  }
}

// What 16 bytes of terms are read from, until they go to shared memory.
template <class P> struct Piece {
  enum { elements = 16 / P::element };
  unsigned words[4];
  float floats[P::kind == 1 ? elements : 1];

  template <class Left, class X>
  __device__ inline void fetch(const X* x, const ConvRow& row, int group, int k) {
    if constexpr (P::kind == 1) {
      #pragma unroll
      for (int i = 0; i < elements; i += P::unit) {
        const float* from = Left::find(x, row, group, k + i);
        if constexpr (P::unit >= 4) {
          #pragma unroll
          for (int h = 0; h < P::unit; h += 4) {
            float4_ v = {{0.0f, 0.0f, 0.0f, 0.0f}};
            if (from) v = *(const float4_*)(from + h);
            for (int j = 0; j < 4; ++j) floats[i + h + j] = v.v[j];
          }
        } else {
          floats[i] = from ? *from : 0.0f;
        }
      }
    } else {
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = 0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const u8* from = Left::find((const u8*)x, row, group, k + i * 4 + j);
          words[i] |= (unsigned)(from ? *from : (u8)P::x_zero) << 8 * j;
        }
      }
    }
  }
  __device__ inline void keep(void* to) {
    if constexpr (P::kind == 1) {
      for (int i = 0; i < 4; ++i) words[i] = halves(floats[2 * i], floats[2 * i + 1]);
    }
    int4_ v;
    for (int i = 0; i < 4; ++i) v.v[i] = (int)words[i];
    *(int4_*)to = v;
  }
};

template <class P, class Left> __device__ void sums_mma(const Args& a) {
  enum {
    bm = P::bm, bn = P::bn, bk = P::bk, pieces = bk / 16,
    threads = P::wm * P::wn * P::wk * 32,
    pitch = bk + 16,  // of a row in shared memory: rows begin in different banks
    stage_bytes = (bm + bn) * pitch,
    la = (bm * pieces + threads - 1) / threads, lb = (bn * pieces + threads - 1) / threads,
    terms = 16 / P::element,                // of a piece
    all = (P::k + terms - 1) / terms,       // pieces of terms
    columns = (P::ng + 7) / 8,              // eights of columns
    steps = (all + pieces - 1) / pieces,
    mt = bm / P::wm / 16, nt = bn / P::wn / 8,
    sum_pitch = bn + 8,
    sum_bytes = P::wk * bm * sum_pitch * 4, ring_bytes = P::stages * stage_bytes,
    zero = P::kind == 0 ? P::x_zero : 0
  };
  typedef TensorCore<P::kind, P::x_signed> M;
  typedef typename M::Sum Sum;
  __shared__ int4_ memory_[(sum_bytes > ring_bytes ? sum_bytes : ring_bytes) / 16];
  u8* const memory = (u8*)memory_;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;
  const int m0 = blockIdx.x * bm, n0 = blockIdx.y * bn, outer = blockIdx.z;
  const int group = P::batched ? 0 : outer;
  const int warp_m = warp % P::wm, warp_n = warp / P::wm % P::wn, warp_k = warp / P::wm / P::wn;
  const typename P::Source* x = at<const typename P::Source>(a, 0);
  if (P::batched) x += P::a_start(outer);
  const u8* w = at<const u8>(a, 1) + (size_t)group * columns * all * 128;

  ConvRow rows[la];
  #pragma unroll
  for (int i = 0; i < la; ++i) Left::start(rows[i], m0 + (tid + i * threads) / pieces);
  Piece<P> held[P::direct ? 1 : la];

  auto fetch_left = [&](int step) {
    u8* const to = memory + step % P::stages * stage_bytes;
    #pragma unroll
    for (int i = 0; i < la; ++i) {
      const int e = tid + i * threads;
      if ((bm * pieces) % threads != 0 && e >= bm * pieces) break;
      const int k = (step * pieces + e % pieces) * terms;
      if constexpr (P::direct) {
        #pragma unroll
        for (int u = 0; u < terms; u += P::unit) {
          u8* const place = to + e / pieces * pitch + e % pieces * 16 + u * P::element;
          const typename P::Source* from = Left::find(x, rows[i], group, k + u);
          if (from) {
            stage<P::unit * P::element>(place, from);
          } else {
            for (int j = 0; j < P::unit * P::element / 4; ++j)
              ((unsigned*)place)[j] = (unsigned)(zero & 255) * 0x01010101u;
          }
        }
      } else {
        held[i].template fetch<Left>(x, rows[i], group, k);
      }
    }
  };
  auto fetch_right = [&](int step) {
    u8* const to = memory + step % P::stages * stage_bytes;
    #pragma unroll
    for (int i = 0; i < lb; ++i) {
      const int e = tid + i * threads;
      if ((bn * pieces) % threads != 0 && e >= bn * pieces) break;
      const int eight = e / (8 * pieces), piece = e / 8 % pieces, n = e % 8;
      u8* const place = to + (bm + eight * 8 + n) * pitch + piece * 16;
      const int from_n = n0 / 8 + eight, from_k = step * pieces + piece;
      if (from_n < columns && from_k < all) {
        stage<16>(place, w + ((size_t)(from_n * all + from_k) * 8 + n) * 16);
      } else {
        *(int4_*)place = int4_{{0, 0, 0, 0}};
      }
    }
  };
  auto keep = [&](int step) {
    if constexpr (!P::direct) {
      u8* const to = memory + step % P::stages * stage_bytes;
      #pragma unroll
      for (int i = 0; i < la; ++i) {
        const int e = tid + i * threads;
        if ((bm * pieces) % threads != 0 && e >= bm * pieces) break;
        held[i].keep(to + e / pieces * pitch + e % pieces * 16);
      }
    }
  };

  Sum acc[mt][nt][4];
  int factors[nt];
  for (int j = 0; j < nt; ++j) {
    factors[j] = 0;
    for (int i = 0; i < mt; ++i)
      for (int c = 0; c < 4; ++c) acc[i][j][c] = 0;
  }
  #pragma unroll
  for (int s = 0; s < P::stages - 1; ++s)
    if (s < steps) fetch_right(s);
  wait_for_others();  // factors are constants
  #pragma unroll
  for (int s = 0; s < P::stages - 1; ++s) {
    if (s < steps) {
      fetch_left(s);
      keep(s);
    }
    close_stage();
  }
  for (int step = 0; step < steps; ++step) {
    wait_stages<P::stages - 2>();
    __syncthreads();  // this piece is there, and the one before it is free
    if (step + P::stages - 1 < steps) {
      fetch_left(step + P::stages - 1);
      fetch_right(step + P::stages - 1);
    }
    close_stage();
    const u8* const piece = memory + step % P::stages * stage_bytes;
    #pragma unroll
    for (int s = 0; s < bk / 32 / P::wk; ++s) {
      const int k = (s * P::wk + warp_k) * 32;
      unsigned l[mt][4], r[nt / 2][4];  // r[j]: two eights of columns
      #pragma unroll
      for (int i = 0; i < mt; ++i)
        load_rows(l[i], piece, (warp_m * mt * 16 + i * 16 + lane % 16) * pitch + k + lane / 16 * 16);
      #pragma unroll
      for (int j = 0; j < nt / 2; ++j)
        load_rows(r[j], piece,
                  (bm + warp_n * nt * 8 + j * 16 + lane / 16 * 8 + lane % 8) * pitch + k +
                      lane / 8 % 2 * 16);
      if constexpr (P::kind == 2) {
        for (int q = 0; q < 4; ++q) {
          for (int i = 0; i < mt; ++i) l[i][q] = to_tf32(l[i][q]);
          for (int j = 0; j < nt / 2; ++j) r[j][q] = to_tf32(r[j][q]);
        }
      }
      if constexpr (zero != 0) {
        for (int j = 0; j < nt; ++j)
          for (int q = 0; q < 2; ++q)
            factors[j] = __dp4a(0x01010101, (int)r[j / 2][j % 2 * 2 + q], factors[j]);
      }
      #pragma unroll
      for (int i = 0; i < mt; ++i)
        #pragma unroll
        for (int j = 0; j < nt; ++j) M::add(acc[i][j], l[i], r[j / 2] + j % 2 * 2);
    }
    if (step + P::stages - 1 < steps) keep(step + P::stages - 1);
  }

  // What lies outside the image counted as the zero point, as all terms did.
  if constexpr (zero != 0) {
    #pragma unroll
    for (int j = 0; j < nt; ++j) {
      int f = factors[j];
      f += __shfl_sync(~0u, f, lane ^ 1);
      f += __shfl_sync(~0u, f, lane ^ 2);
      for (int c = 0; c < 2; ++c) {
        const unsigned off = (unsigned)zero * (unsigned)__shfl_sync(~0u, f, (2 * t + c) * 4);
        for (int i = 0; i < mt; ++i)
          for (int h = 0; h < 4; h += 2) acc[i][j][c + h] = (int)((unsigned)acc[i][j][c + h] - off);
      }
    }
  }
  wait_stages<0>();
  __syncthreads();
  Sum* const sums = (Sum*)memory;
  #pragma unroll
  for (int i = 0; i < mt; ++i)
    #pragma unroll
    for (int j = 0; j < nt; ++j)
      #pragma unroll
      for (int c = 0; c < 4; ++c)
        sums[(warp_k * bm + (warp_m * mt + i) * 16 + g + c / 2 * 8) * sum_pitch +
             (warp_n * nt + j) * 8 + 2 * t + c % 2] = acc[i][j][c];
  __syncthreads();
  for (int e = tid; e < bm * bn / 4; e += threads) {
    const int m = e / (bn / 4), row = m0 + m, c = e % (bn / 4) * 4, n = n0 + c;
    if (row >= P::m || n >= P::ng) continue;
    Sum v[4];
    for (int j = 0; j < 4; ++j) {
      v[j] = sums[m * sum_pitch + c + j];
      for (int s = 1; s < P::wk; ++s) v[j] += sums[(s * bm + m) * sum_pitch + c + j];
    }
    store_four<P>(a, P::batched ? outer * P::m + row : row, group * P::ng + n, P::ng - n, v);
  }
}
)cuda";

}  // namespace

const char* cuda_mma_source() {
  static const std::string text = std::string(cuda::tensor_core_source()) + kSums;
  return text.c_str();
}

}  // namespace xrt::lite
