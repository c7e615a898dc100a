// SPDX-License-Identifier: Apache-2.0
// Kernels for sums of products: convolutions as products of matrices whose left side is looked up
// in the image, matrix products, depthwise convolutions.
#include "targets/cuda.h"

namespace xrt::lite {

const char* cuda_sums_source();

namespace {

// A block computes a tile of bm x bn outputs, bk terms at a time: both sides lie in shared memory,
// the next ones are on their way meanwhile. A thread has tm x 4 outputs. With `splits` > 1 each
// block adds a part of the terms into scratch memory, and finish() adds the parts.
constexpr const char* kSums = R"cuda(
template <class P> __device__ inline void store_sum(const Args& a, int row, int column, float v) {
  const int n = column;  // over all groups
  if (P::alpha() != 1.0f) v *= P::alpha();
  if (P::bias) v += at<const float>(a, 2)[n];
  const size_t y = P::y_at(row) + n;
  if (P::residual) v += at<const float>(a, P::bias ? 3 : 2)[P::r_at(row) + n];
  if (P::clips) v = clip(v, P::lo(), P::hi());
  at<float>(a, P::y)[y] = v;
}

// Where a thread's row of the left side begins in the image.
struct ConvRow { size_t base; int y, x; };

template <class P> struct ConvLeft {
  static __device__ inline void start(ConvRow& r, int m) {
    const int ox = m % P::ow, oy = m / P::ow % P::oh, n = m / P::ow / P::oh;
    r.base = (size_t)n * P::ih * P::iw;
    r.y = m < P::m ? oy * P::stride_h - P::pad_top : -(1 << 28);
    r.x = ox * P::stride_w - P::pad_left;
  }
  template <class T>
  static __device__ inline const T* find(const T* x, const ConvRow& r, int group, int k) {
    const int c = k % P::icg, kx = k / P::icg % P::kw, ky = k / P::icg / P::kw;
    const int y = r.y + ky * P::dilation_h, column = r.x + kx * P::dilation_w;
    if (k >= P::k || y < 0 || y >= P::ih || column < 0 || column >= P::iw) return 0;
    return x + (r.base + (size_t)y * P::iw + column) * P::x_pitch + group * P::icg + c;
  }
};

template <class P> struct GemmLeft {
  static __device__ inline void start(ConvRow& r, int m) {
    r.base = (size_t)m * P::a_row;
    r.y = m < P::m;
    r.x = 0;
  }
  template <class T>
  static __device__ inline const T* find(const T* x, const ConvRow& r, int, int k) {
    return r.y && k < P::k ? x + r.base + (size_t)k * P::a_col : 0;
  }
};

template <class P, class Left> __device__ void sums(const Args& a) {
  enum {
    bm = P::bm, bn = P::bn, bk = P::bk, tm = P::tm,
    threads = (bm / tm) * (bn / 4),
    va = P::vector ? 4 : 1,                            // terms per load of the left side
    la = (bm * bk / va + threads - 1) / threads,       // loads per thread
    vb = P::pack > 0 ? 4 : 1,
    lb = (bn * bk / vb + threads - 1) / threads,
    steps = (P::k + bk - 1) / bk,
    part = (steps + P::splits - 1) / P::splits
  };
  typedef typename P::W W;
  __shared__ float4_ left_[2 * bk * bm / 4], right_[2 * bk * bn / 4];
  float* const left = (float*)left_;
  float* const right = (float*)right_;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * bm, n0 = blockIdx.y * bn;
  const int split = blockIdx.z % P::splits, outer = blockIdx.z / P::splits;
  const int group = P::batched ? 0 : outer;
  const float* x = at<const float>(a, 0);
  const W* w = at<const W>(a, 1);
  if (P::batched) {
    x += P::a_start(outer);
    w += P::b_start(outer);
  } else {
    w += (size_t)group * ((P::ng + P::pack_or_one - 1) / P::pack_or_one) * P::pack_or_one * P::k;
  }
  ConvRow rows[la];
  for (int i = 0; i < la; ++i) Left::start(rows[i], m0 + (tid + i * threads) / (bk / va));
  float fetched_a[la * va], fetched_b[lb * vb];

  const int first = split * part, last = first + part < steps ? first + part : steps;
  auto fetch = [&](int step) {
    #pragma unroll
    for (int i = 0; i < la; ++i) {
      const int e = tid + i * threads;
      const float* from = 0;
      if ((bm * bk / va) % threads == 0 || e < bm * bk / va)
        from = Left::find(x, rows[i], group, step * bk + e % (bk / va) * va);
      if constexpr (va == 4) {
        float4_ v = {{0.0f, 0.0f, 0.0f, 0.0f}};
        if (from) v = *(const float4_*)from;
        for (int j = 0; j < va; ++j) fetched_a[i * va + j] = v.v[j];
      } else {
        fetched_a[i] = from ? *from : 0.0f;
      }
    }
    #pragma unroll
    for (int i = 0; i < lb; ++i) {
      const int e = tid + i * threads;
      const int k = step * bk + e / (bn / vb), n = n0 + e % (bn / vb) * vb;
      const bool inside = ((bn * bk / vb) % threads == 0 || e < bn * bk / vb) && k < P::k && n < P::ng;
      if constexpr (P::pack > 0) {
        for (int j = 0; j < vb; ++j) fetched_b[i * vb + j] = 0.0f;
        if (inside)
          weights4(w + ((size_t)(n / P::pack_or_one) * P::k + k) * P::pack_or_one + n % P::pack_or_one,
                   fetched_b + i * vb);
      } else {
        fetched_b[i] = inside ? weight(w, (size_t)k * P::b_row + (size_t)n * P::b_col) : 0.0f;
      }
    }
  };
  auto keep = [&](int buffer) {
    #pragma unroll
    for (int i = 0; i < la; ++i) {
      const int e = tid + i * threads;
      if ((bm * bk / va) % threads != 0 && e >= bm * bk / va) break;
      const int k = e % (bk / va) * va, m = e / (bk / va);
      for (int j = 0; j < va; ++j) left[buffer * bk * bm + (k + j) * bm + m] = fetched_a[i * va + j];
    }
    #pragma unroll
    for (int i = 0; i < lb; ++i) {
      const int e = tid + i * threads;
      if ((bn * bk / vb) % threads != 0 && e >= bn * bk / vb) break;
      const int k = e / (bn / vb), n = e % (bn / vb) * vb;
      for (int j = 0; j < vb; ++j) right[buffer * bk * bn + k * bn + n + j] = fetched_b[i * vb + j];
    }
  };

  const int tx = tid % (bn / 4), ty = tid / (bn / 4);
  float acc[tm][4];
  for (int i = 0; i < tm; ++i)
    for (int j = 0; j < 4; ++j) acc[i][j] = 0.0f;
  if (first < last) {
    fetch(first);
    keep(0);
  }
  __syncthreads();
  for (int step = first; step < last; ++step) {
    const int buffer = (step - first) & 1;
    if (step + 1 < last) fetch(step + 1);
    #pragma unroll
    for (int k = 0; k < bk; ++k) {
      float l[tm];
      const float4_ r = *(const float4_*)(right + buffer * bk * bn + k * bn + tx * 4);
      const float* column = left + buffer * bk * bm + k * bm + ty * tm;
      for (int i = 0; i < tm; ++i) l[i] = column[i];
      for (int i = 0; i < tm; ++i)
        for (int j = 0; j < 4; ++j) acc[i][j] += l[i] * r.v[j];
    }
    if (step + 1 < last) keep(buffer ^ 1);
    __syncthreads();
  }
  for (int i = 0; i < tm; ++i) {
    const int row = m0 + ty * tm + i;
    if (row >= P::m) break;
    for (int j = 0; j < 4; ++j) {
      const int n = n0 + tx * 4 + j;
      if (n >= P::ng) break;
      if (P::splits > 1) {
        at<float>(a, P::y + 1)[((size_t)(split * P::outer + outer) * P::m + row) * P::ng + n] =
            acc[i][j];
      } else {
        store_sum<P>(a, P::batched ? outer * P::m + row : row, group * P::ng + n, acc[i][j]);
      }
    }
  }
}

template <class P> __device__ void finish(const Args& a) {
  const int i = thread_index();
  if (i >= P::outer * P::m * P::ng) return;
  const float* from = at<const float>(a, P::y + 1) + i;
  float v = 0.0f;
  for (int s = 0; s < P::splits; ++s) v += from[(size_t)s * P::outer * P::m * P::ng];
  const int n = i % P::ng, row = i / P::ng % P::m, outer = i / P::ng / P::m;
  store_sum<P>(a, P::batched ? outer * P::m + row : row, (P::batched ? 0 : outer * P::ng) + n, v);
}

// One output a thread, channels side by side.
template <class P> __device__ void depthwise(const Args& a) {
  const int i = thread_index();
  if (i >= P::m * P::oc) return;
  const int c = i % P::oc, row = i / P::oc;
  const int ox = row % P::ow, oy = row / P::ow % P::oh, n = row / P::ow / P::oh;
  const float* x = at<const float>(a, 0) + (size_t)n * P::ih * P::iw * P::x_pitch + c;
  const typename P::W* w = at<const typename P::W>(a, 1) + c;
  float acc = 0.0f;
  #pragma unroll
  for (int ky = 0; ky < P::kh; ++ky) {
    const int iy = oy * P::stride_h - P::pad_top + ky * P::dilation_h;
    #pragma unroll
    for (int kx = 0; kx < P::kw; ++kx) {
      const int ix = ox * P::stride_w - P::pad_left + kx * P::dilation_w;
      if (iy >= 0 && iy < P::ih && ix >= 0 && ix < P::iw)
        acc += x[((size_t)iy * P::iw + ix) * P::x_pitch] * weight(w, (size_t)(ky * P::kw + kx) * P::oc);
    }
  }
  store_sum<P>(a, row, c, acc);
}
)cuda";

}  // namespace

const char* cuda_sums_source() { return kSums; }

}  // namespace xrt::lite
