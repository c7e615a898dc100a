// SPDX-License-Identifier: Apache-2.0
// The text that all kernels of a file begin with. Sizes are compile-time constants: each op is an
// instance with a structure P of its own (cuda_source.cc). The language is the part of CUDA C++
// that a C++17 compiler takes, too, with threadIdx and its kin defined: so the tests run it.
#include "device/cuda/source.h"
#include "targets/cuda.h"

namespace xrt::lite {

const char* cuda_sums_source();
const char* cuda_quantized_source();
const char* cuda_mma_source();
const char* cuda_depthwise_q8_source();

namespace {

constexpr const char* kBasics = R"cuda(

// Operands in the order of lite/runtime/src/kernel.h, then scratch memory.
struct Args { void* p[12]; };

struct alignas(16) float4_ { float v[4]; };
struct alignas(16) int4_ { int v[4]; };
struct alignas(8) half4_ { u16 v[4]; };

template <class T> __device__ inline T* at(const Args& a, int i) { return (T*)a.p[i]; }

// A kernel may start while the one before it ends (the driver's launch attribute): nothing in the
// arena is touched before this. Constants may be.
__device__ inline void wait_for_others() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ inline int thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ inline float weight(const float* w, size_t i) { return w[i]; }
__device__ inline float weight(const u16* w, size_t i) { return half_to_float(w[i]); }
__device__ inline void weights4(const float* w, float* to) {
  const float4_ v = *(const float4_*)w;
  for (int i = 0; i < 4; ++i) to[i] = v.v[i];
}
__device__ inline void weights4(const u16* w, float* to) {
  const half4_ v = *(const half4_*)w;
  for (int i = 0; i < 4; ++i) to[i] = half_to_float(v.v[i]);
}

__device__ inline float clip(float v, float lo, float hi) {
  v = v > lo ? v : lo;
  return v < hi ? v : hi;
}

__device__ inline u8 to_q8(float v, int zero, int is_signed) {
  if (!(v > -1024.0f)) v = -1024.0f;
  if (!(v < 1024.0f)) v = 1024.0f;
  const int q = (int)rintf(v) + zero, low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  return (u8)(q < low ? low : q > high ? high : q);
}

__device__ inline i64 float_to_i64(float v) {
  if (!(v > -9.2e18f)) return v < 0 ? (i64)(-9223372036854775807LL - 1) : 0;
  if (!(v < 9.2e18f)) return 9223372036854775807LL;
  return (i64)v;
}

// --- pointwise and moving: one element a thread
template <class P> __device__ void pool(const Args& a) {
  const int i = thread_index();
  if (i >= P::n * P::oh * P::ow * P::c) return;
  const int c = i % P::c, ox = i / P::c % P::ow, oy = i / P::c / P::ow % P::oh;
  const int n = i / P::c / P::ow / P::oh;
  typedef typename P::T T;
  const T* x = at<const T>(a, 0);
  float acc = P::is_max ? -__uint_as_float(0x7f800000u) : 0.0f;
  int inside = 0, padded = 0;
  for (int ky = 0; ky < P::kh; ++ky) {
    const int iy = oy * P::stride_h - P::pad_top + ky * P::dilation_h;
    if (iy >= P::ih + P::pad_bottom) continue;
    for (int kx = 0; kx < P::kw; ++kx) {
      const int ix = ox * P::stride_w - P::pad_left + kx * P::dilation_w;
      if (ix >= P::iw + P::pad_right) continue;
      ++padded;
      if (iy < 0 || iy >= P::ih || ix < 0 || ix >= P::iw) continue;
      const float v = (float)x[((size_t)(n * P::ih + iy) * P::iw + ix) * P::x_pitch + c];
      acc = P::is_max ? (v > acc || inside == 0 ? v : acc) : acc + v;
      ++inside;
    }
  }
  if (P::is_max && inside == 0 && sizeof(T) == 1) acc = T(-1) < T(0) ? -128.0f : 0.0f;
  if (!P::is_max) acc = inside == 0 ? 0.0f : acc / (float)(P::count_include_pad ? padded : inside);
  at<T>(a, 1)[((size_t)(n * P::oh + oy) * P::ow + ox) * P::y_pitch + c] = (T)acc;
}

template <class P> __device__ void copy(const Args& a) {
  int rest = thread_index();
  if (rest >= P::count) return;
  i64 x = P::x_offset, y = P::y_offset;
  for (int d = P::rank - 1; d >= 0; --d) {
    const int i = rest % P::dim(d);
    rest /= P::dim(d);
    x += (i64)i * P::x_stride(d);
    y += (i64)i * P::y_stride(d);
  }
  at<typename P::T>(a, 1)[y] = at<const typename P::T>(a, 0)[x];
}

template <class P> __device__ void fill(const Args& a) {
  const int i = thread_index();
  if (i < P::count) at<typename P::T>(a, 0)[i] = (typename P::T)P::bits;
}

template <class P> __device__ void resize(const Args& a) {
  const int i = thread_index();
  if (i >= P::n * P::oh * P::ow * P::c) return;
  const int c = i % P::c, ox = i / P::c % P::ow, oy = i / P::c / P::ow % P::oh;
  const int n = i / P::c / P::ow / P::oh;
  const float shift = P::half_pixel ? 0.5f : 0.0f;
  float fy = __fsub_rn(__fmul_rn((float)oy + shift, P::scale_h()), shift);
  float fx = __fsub_rn(__fmul_rn((float)ox + shift, P::scale_w()), shift);
  fy = clip(fy, 0.0f, (float)(P::ih - 1));
  fx = clip(fx, 0.0f, (float)(P::iw - 1));
  const int y0 = (int)fy, x0 = (int)fx;
  const float* x =
      at<const float>(a, 0) + ((size_t)(n * P::ih + y0) * P::iw + x0) * P::c + c;
  float v = x[0];
  if (P::linear) {
    const int right = x0 + 1 < P::iw ? P::c : 0, down = y0 + 1 < P::ih ? P::iw * P::c : 0;
    const float wy = fy - (float)y0, wx = fx - (float)x0;
    const float top = x[0] + (x[right] - x[0]) * wx;
    const float low = x[down] + (x[down + right] - x[down]) * wx;
    v = top + (low - top) * wy;
  }
  at<float>(a, 1)[i] = v;
}

// --- along an axis: one block of 256 threads a line, or one thread where lines are short
__device__ inline float combine(int kind, float a, float b) {
  if (kind == 2) return b > a || b != b ? b : a;
  if (kind == 3) return b < a || b != b ? b : a;
  if (kind == 4) return a * b;
  return a + b;
}

__device__ inline float block_combine(int kind, float v) {
  __shared__ float part[256];
  __syncthreads();
  part[threadIdx.x] = v;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] = combine(kind, part[threadIdx.x], part[threadIdx.x + s]);
    __syncthreads();
  }
  return part[0];
}

template <class P> __device__ void reduce(const Args& a) {
  const int index = P::block ? (int)blockIdx.x : thread_index();
  if (!P::block && index >= P::kept_count) return;
  const float* x = at<const float>(a, 0);
  int rest = index;
  for (int d = 3; d >= 0; --d) {
    x += (i64)(rest % P::kept(d)) * P::kept_stride(d);
    rest /= P::kept(d);
  }
  const float infinity = __uint_as_float(0x7f800000u);
  float acc = P::kind == 2 ? -infinity : P::kind == 3 ? infinity : P::kind == 4 ? 1.0f : 0.0f;
  for (int i = P::block ? (int)threadIdx.x : 0; i < P::reduced_count; i += P::block ? 256 : 1) {
    int r = i;
    i64 offset = 0;
    for (int d = 3; d >= 0; --d) {
      offset += (i64)(r % P::reduced(d)) * P::reduced_stride(d);
      r /= P::reduced(d);
    }
    float v = x[offset];
    if (P::kind == 5 || P::kind == 7) v *= v;
    if (P::kind == 6) v = fabsf(v);
    acc = combine(P::kind, acc, v);
  }
  if (P::block) acc = block_combine(P::kind, acc);
  if (P::kind == 1) acc /= (float)P::reduced_count;
  if (P::kind == 7) acc = sqrtf(acc);
  if (!P::block || threadIdx.x == 0) at<float>(a, 1)[index] = acc;
}

template <class P> __device__ void softmax(const Args& a) {
  const int inner = blockIdx.x % P::inner, outer = blockIdx.x / P::inner;
  const size_t start = (size_t)outer * P::size * P::inner + inner;
  const float* x = at<const float>(a, 0) + start;
  float* y = at<float>(a, 1) + start;
  float top = -__uint_as_float(0x7f800000u), sum = 0.0f;
  for (int i = threadIdx.x; i < P::size; i += 256) top = fmaxf(top, x[(size_t)i * P::inner]);
  top = block_combine(2, top);
  for (int i = threadIdx.x; i < P::size; i += 256) sum += expf(x[(size_t)i * P::inner] - top);
  sum = block_combine(0, sum);
  for (int i = threadIdx.x; i < P::size; i += 256) {
    const float v = x[(size_t)i * P::inner] - top;
    y[(size_t)i * P::inner] = P::log ? v - logf(sum) : expf(v) / sum;
  }
}

template <class P> __device__ void norm(const Args& a) {
  const float* x = at<const float>(a, 0) + (size_t)blockIdx.x * P::size;
  float* y = at<float>(a, P::bias ? 3 : 2) + (size_t)blockIdx.x * P::size;
  float mean = 0.0f, variance = 0.0f;
  for (int i = threadIdx.x; i < P::size; i += 256) mean += x[i];
  mean = block_combine(0, mean) / (float)P::size;
  for (int i = threadIdx.x; i < P::size; i += 256) variance += (x[i] - mean) * (x[i] - mean);
  variance = block_combine(0, variance) / (float)P::size;
  const float factor = 1.0f / sqrtf(variance + P::epsilon());
  for (int i = threadIdx.x; i < P::size; i += 256) {
    const float v = (x[i] - mean) * factor * at<const float>(a, 1)[i];
    y[i] = P::bias ? v + at<const float>(a, 2)[i] : v;
  }
}

template <class P> __device__ void arg(const Args& a) {
  const int i = thread_index();
  if (i >= P::outer * P::inner) return;
  const float* x = at<const float>(a, 0) + (size_t)(i / P::inner) * P::size * P::inner + i % P::inner;
  int best = 0;
  for (int k = 1; k < P::size; ++k) {
    const float v = x[(size_t)k * P::inner], b = x[(size_t)best * P::inner];
    if (P::minimum ? v < b : v > b) best = k;
  }
  at<i64>(a, 1)[i] = best;
}
)cuda";

}  // namespace

std::string cuda_prelude() {
  return std::string(cuda::basic_source()) + kBasics + cuda_sums_source() +
         cuda_quantized_source() + cuda_mma_source() + cuda_depthwise_q8_source();
}

}  // namespace xrt::lite
