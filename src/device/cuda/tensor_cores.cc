// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/source.h"

namespace xrt::cuda {

// One instruction multiplies 16 rows by 8 columns over 32 bytes of terms: 32 of int8, 16 of
// float16, 8 of TF32. For all three a thread with g = lane / 4 and t = lane % 4 has the same bytes:
//   a[0], a[1]: rows g and g + 8, bytes 4t to 4t + 3; a[2], a[3]: the same rows, 16 bytes further
//   b[0], b[1]: column g, bytes 4t to 4t + 3, and 16 further
//   c[0], c[1]: row g, columns 2t and 2t + 1; c[2], c[3]: row g + 8
// Devices before 8.0 exchange fragments and add with dp4a or in float32.
std::string_view tensor_core_source() {
  return R"cuda(
template <int kind, bool is_signed> struct TensorCore;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> struct TensorCore<0, true> {
  typedef int Sum;
  static __device__ inline void add(int* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <> struct TensorCore<0, false> {
  typedef int Sum;
  static __device__ inline void add(int* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <> struct TensorCore<1, true> {
  typedef float Sum;
  static __device__ inline void add(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
__device__ inline unsigned to_tf32(unsigned bits) {
  unsigned v;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v) : "f"(__uint_as_float(bits)));
  return v;
}
template <> struct TensorCore<2, true> {
  typedef float Sum;
  static __device__ inline void add(float* c, const unsigned* a, const unsigned* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
__device__ inline unsigned halves(float low, float high) {
  unsigned v;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
template <int bytes> __device__ inline void stage(void* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes)
                 : "memory");
}
// Four times 8 rows of 16 bytes: lanes 8i to 8i + 7 say where those of to[i] begin, and a thread gets
// bytes 4t to 4t + 3 of row g.
__device__ inline void load_rows(unsigned* to, const u8* memory, int row) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(memory + row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}
__device__ inline void close_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int open> __device__ inline void wait_stages() {
  asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}
#else
__device__ inline int dot(unsigned a, unsigned b, int c, bool is_signed) {
  if (is_signed) return __dp4a((int)a, (int)b, c);
  return __dp4a((int)(a ^ 0x80808080u), (int)b, c) + 128 * __dp4a(0x01010101, (int)b, 0);
}
__device__ inline unsigned to_tf32(unsigned bits) { return (bits + 0x1000u) & 0xffffe000u; }
template <int kind> struct SumOf { typedef float T; };
template <> struct SumOf<0> { typedef int T; };
template <int kind, bool is_signed> struct TensorCore {
  typedef typename SumOf<kind>::T Sum;
  static __device__ inline Sum both(unsigned a, unsigned b, Sum c) {
    if constexpr (kind == 0) return dot(a, b, c, is_signed);
    else if constexpr (kind == 1)
      return c + half_to_float((u16)a) * half_to_float((u16)b) +
             half_to_float((u16)(a >> 16)) * half_to_float((u16)(b >> 16));
    else return c + __uint_as_float(a) * __uint_as_float(b);
  }
  static __device__ inline void add(Sum* c, const unsigned* a, const unsigned* b) {
    const int lane = threadIdx.x & 31, t = lane & 3;
    for (int q = 0; q < 4; ++q) {
      unsigned l[4];
      for (int i = 0; i < 4; ++i) l[i] = __shfl_sync(~0u, a[i], (lane & ~3) + q);
      for (int j = 0; j < 2; ++j) {
        const unsigned low = __shfl_sync(~0u, b[0], (2 * t + j) * 4 + q);
        const unsigned high = __shfl_sync(~0u, b[1], (2 * t + j) * 4 + q);
        c[j] = both(l[2], high, both(l[0], low, c[j]));
        c[2 + j] = both(l[3], high, both(l[1], low, c[2 + j]));
      }
    }
  }
};
__device__ inline unsigned halves(float low, float high) {
  return (unsigned)float_to_half(low) | (unsigned)float_to_half(high) << 16;
}
template <int bytes> __device__ inline void stage(void* to, const void* from) {
  for (int i = 0; i < bytes / 4; ++i) ((unsigned*)to)[i] = ((const unsigned*)from)[i];
}
__device__ inline void load_rows(unsigned* to, const u8* memory, int row) {
  const int lane = threadIdx.x & 31;
  for (int i = 0; i < 4; ++i)
    to[i] = *(const unsigned*)(memory + __shfl_sync(~0u, row, i * 8 + lane / 4) + lane % 4 * 4);
}
__device__ inline void close_stage() {}
template <int open> __device__ inline void wait_stages() {}
#endif
)cuda";
}

}  // namespace xrt::cuda
