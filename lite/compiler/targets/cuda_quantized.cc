// SPDX-License-Identifier: Apache-2.0
// int8 sums: exact in int32, then in float32 with each operation rounded on its own, so that they
// equal those of the CPU drivers bit for bit.
#include "targets/cuda.h"

namespace xrt::lite {

const char* cuda_quantized_source();
const char* cuda_depthwise_q8_source();

namespace {

constexpr const char* kQuantized = R"cuda(
template <class P> __device__ inline u8 rounded_q8(int sum, float scale, int bias, int residual) {
  float v = __fmul_rn((float)(int)((unsigned)sum + (unsigned)bias), scale);
  if (P::residual) v = __fadd_rn(v, __fmul_rn((float)(residual - P::r_zero), P::r_scale()));
  if (P::clips) v = clip(v, P::lo(), P::hi());
  return to_q8(v, P::y_zero, P::y_signed);
}

template <class P> __device__ inline void store_q8(const Args& a, int row, int n, int sum) {
  int residual = 0;
  if (P::residual)
    residual = (int)at<const typename P::R>(a, P::bias ? 4 : 3)[P::r_at(row) + n];
  at<u8>(a, P::y)[P::y_at(row) + n] = rounded_q8<P>(
      sum, at<const float>(a, 2)[n], P::bias ? at<const int>(a, 3)[n] : 0, residual);
}

)cuda";

constexpr const char* kDepthwise = R"cuda(
// P::step channels of one pixel a thread: 4 where they are a word everywhere, else 1.
template <class P> __device__ void depthwise_q8(const Args& a) {
  const int i = thread_index();
  if (i >= P::m * (P::oc / P::step)) return;
  const int c = i % (P::oc / P::step) * P::step, row = i / (P::oc / P::step);
  const int ox = row % P::ow, oy = row / P::ow % P::oh, n = row / P::ow / P::oh;
  const u8* x = at<const u8>(a, 0) + (size_t)n * P::ih * P::iw * P::x_pitch + c;
  const u8* w = at<const u8>(a, 1) + c;
  int acc[P::step];
  for (int j = 0; j < P::step; ++j) acc[j] = 0;
  #pragma unroll
  for (int ky = 0; ky < P::kh; ++ky) {
    const int iy = oy * P::stride_h - P::pad_top + ky * P::dilation_h;
    #pragma unroll
    for (int kx = 0; kx < P::kw; ++kx) {
      const int ix = ox * P::stride_w - P::pad_left + kx * P::dilation_w;
      if (iy < 0 || iy >= P::ih || ix < 0 || ix >= P::iw) continue;
      const u8* from = x + ((size_t)iy * P::iw + ix) * P::x_pitch;
      const u8* factor = w + (size_t)(ky * P::kw + kx) * P::oc;
      if constexpr (P::step == 4) {
        const unsigned l = *(const unsigned*)from, r = *(const unsigned*)factor;
        #pragma unroll
        for (int j = 0; j < 4; ++j)
          acc[j] += ((int)(typename P::X)(l >> 8 * j) - P::x_zero) * (int)(i8)(r >> 8 * j);
      } else {
        acc[0] += ((int)(typename P::X)*from - P::x_zero) * (int)(i8)*factor;
      }
    }
  }
  if constexpr (P::step == 4) store_four<P>(a, row, c, 4, acc);
  else store_q8<P>(a, row, c, acc[0]);
}
)cuda";

}  // namespace

const char* cuda_quantized_source() { return kQuantized; }
const char* cuda_depthwise_q8_source() { return kDepthwise; }

}  // namespace xrt::lite
