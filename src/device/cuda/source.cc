// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/source.h"

namespace xrt::cuda {

std::string_view basic_source() {
  return R"cuda(
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef long long i64;
typedef unsigned long long u64;

#ifdef __CUDACC_RTC__
__device__ inline float half_to_float(u16 h) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(h));
  return value;
}
__device__ inline u16 float_to_half(float value) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(value));
  return h;
}
#else
__device__ inline float half_to_float(u16 h) {
  const unsigned sign = (unsigned)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, m = h & 1023u;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | (m << 13));
  if (exponent != 0) return __uint_as_float(sign | ((exponent + 112u) << 23) | (m << 13));
  const float v = (float)m * (1.0f / 16777216.0f);
  return sign ? -v : v;
}
__device__ inline u16 float_to_half(float value) {
  unsigned bits = __float_as_uint(value);
  const unsigned sign = (bits >> 16) & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (u16)(sign | 0x7e00u);
  if (bits >= 0x477ff000u) return (u16)(sign | 0x7c00u);
  if (bits < 0x38800000u) {
    return (u16)(sign | (__float_as_uint(__uint_as_float(bits) + 0.5f) - 0x3f000000u));
  }
  return (u16)(sign | ((bits + 0xc8000fffu + ((bits >> 13) & 1u)) >> 13));
}
#endif
__device__ inline float bfloat_to_float(u16 b) { return __uint_as_float((unsigned)b << 16); }
__device__ inline u16 float_to_bfloat(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return (u16)0x7fc0;
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
)cuda";
}

}  // namespace xrt::cuda
