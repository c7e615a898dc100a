// SPDX-License-Identifier: Apache-2.0
// int8 sums: exact in int32, then in float32 with each operation rounded on its own, so that they
// equal those of the CPU drivers bit for bit.
#include "targets/cuda.h"

namespace xrt::lite {

const char* cuda_quantized_source();

namespace {

// Four terms are a word. Both sides count as int8: of uint8 the sign bit is flipped, and the zero
// point with it. What lies outside the image is the zero point, so that the sum of the factors
// times the zero point can be taken off at the end.
constexpr const char* kQuantized = R"cuda(
struct alignas(16) int4_ { int v[4]; };

template <class P> __device__ inline void store_q8(const Args& a, int row, int n, int sum) {
  if (P::bias) sum = (int)((unsigned)sum + (unsigned)at<const int>(a, 3)[n]);
  float v = __fmul_rn((float)sum, at<const float>(a, 2)[n]);
  if (P::residual) {
    const int r = (int)at<const typename P::R>(a, P::bias ? 4 : 3)[P::r_at(row) + n] - P::r_zero;
    v = __fadd_rn(v, __fmul_rn((float)r, P::r_scale()));
  }
  if (P::clips) v = clip(v, P::lo(), P::hi());
  at<u8>(a, P::y)[P::y_at(row) + n] = to_q8(v, P::y_zero, P::y_signed);
}

template <class P, class Left> __device__ void sums_q8(const Args& a) {
  enum {
    bm = P::bm, bn = P::bn, bk = P::bk / 2, tm = P::tm,  // bk words
    threads = (bm / tm) * (bn / 4),
    la = (bm * bk + threads - 1) / threads, lb = (bn * bk / 4 + threads - 1) / threads,
    words = (P::k + 3) / 4, steps = (words + bk - 1) / bk,
    zero = P::x_signed ? P::x_zero : P::x_zero - 128,
    flip = P::x_signed ? 0 : 0x80
  };
  __shared__ int4_ left_[bk * bm / 4], right_[bk * bn / 4];
  int* const left = (int*)left_;
  int* const right = (int*)right_;
  const int tid = threadIdx.x, m0 = blockIdx.x * bm, n0 = blockIdx.y * bn, outer = blockIdx.z;
  const int group = P::batched ? 0 : outer;
  const u8* x = at<const u8>(a, 0);
  const int* w = at<const int>(a, 1);
  if (P::batched) {
    x += P::a_start(outer);
    w += P::b_start(outer) / 4;
  } else {
    w += (size_t)group * ((P::ng + P::pack - 1) / P::pack) * P::pack * words;
  }
  const int tx = tid % (bn / 4), ty = tid / (bn / 4);
  int acc[tm][4], factors[4];
  for (int j = 0; j < 4; ++j) {
    factors[j] = 0;
    for (int i = 0; i < tm; ++i) acc[i][j] = 0;
  }
  for (int step = 0; step < steps; ++step) {
    #pragma unroll
    for (int i = 0; i < la; ++i) {
      const int e = tid + i * threads;
      if ((bm * bk) % threads != 0 && e >= bm * bk) break;
      const int k = (step * bk + e % bk) * 4, m = e / bk;
      ConvRow row;
      Left::start(row, m0 + m);
      unsigned word = 0;
      if (P::vector) {
        const u8* from = Left::find(x, row, group, k);
        word = from ? *(const unsigned*)from : (unsigned)(P::x_zero & 255) * 0x01010101u;
      } else {
        for (int j = 0; j < 4; ++j) {
          const u8* from = Left::find(x, row, group, k + j);
          word |= (unsigned)(from ? *from : (u8)P::x_zero) << 8 * j;
        }
      }
      left[e % bk * bm + m] = (int)(word ^ (unsigned)flip * 0x01010101u);
    }
    #pragma unroll
    for (int i = 0; i < lb; ++i) {
      const int e = tid + i * threads;
      if ((bn * bk / 4) % threads != 0 && e >= bn * bk / 4) break;
      const int k = step * bk + e / (bn / 4), n = n0 + e % (bn / 4) * 4;
      int4_ v = {{0, 0, 0, 0}};
      if (k < words && n < P::ng)
        v = *(const int4_*)(w + ((size_t)(n / P::pack) * words + k) * P::pack + n % P::pack);
      right_[e] = v;
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < bk; ++k) {
      const int4_ r = *(const int4_*)(right + k * bn + tx * 4);
      for (int j = 0; j < 4; ++j) factors[j] = __dp4a(0x01010101, r.v[j], factors[j]);
      for (int i = 0; i < tm; ++i) {
        const int l = left[k * bm + ty * tm + i];
        for (int j = 0; j < 4; ++j) acc[i][j] = __dp4a(l, r.v[j], acc[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < tm; ++i) {
    const int row = m0 + ty * tm + i;
    if (row >= P::m) break;
    for (int j = 0; j < 4; ++j) {
      const int n = n0 + tx * 4 + j;
      if (n >= P::ng) break;
      store_q8<P>(a, P::batched ? outer * P::m + row : row, group * P::ng + n,
                  (int)((unsigned)acc[i][j] - (unsigned)zero * (unsigned)factors[j]));
    }
  }
}

template <class P> __device__ void depthwise_q8(const Args& a) {
  const int i = thread_index();
  if (i >= P::m * P::oc) return;
  const int c = i % P::oc, row = i / P::oc;
  const int ox = row % P::ow, oy = row / P::ow % P::oh, n = row / P::ow / P::oh;
  const typename P::X* x =
      at<const typename P::X>(a, 0) + (size_t)n * P::ih * P::iw * P::x_pitch + c;
  const i8* w = at<const i8>(a, 1) + c;
  int acc = 0;
  for (int ky = 0; ky < P::kh; ++ky) {
    const int iy = oy * P::stride_h - P::pad_top + ky * P::dilation_h;
    for (int kx = 0; kx < P::kw; ++kx) {
      const int ix = ox * P::stride_w - P::pad_left + kx * P::dilation_w;
      if (iy >= 0 && iy < P::ih && ix >= 0 && ix < P::iw)
        acc += ((int)x[((size_t)iy * P::iw + ix) * P::x_pitch] - P::x_zero) *
               (int)w[(size_t)(ky * P::kw + kx) * P::oc];
    }
  }
  store_q8<P>(a, row, c, acc);
}
)cuda";

}  // namespace

const char* cuda_quantized_source() { return kQuantized; }

}  // namespace xrt::lite
