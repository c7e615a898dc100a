// SPDX-License-Identifier: Apache-2.0
// Before a CUDA source of the lite compiler: what of the language it uses, so that a C++17 compiler
// takes it. Threads of a block are coroutines of libcuda's stand-in, which switches between them at
// barriers; blocks run one after the other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(n)

struct standin_index {
  unsigned x, y, z;
};
extern "C" {
extern standin_index standin_thread, standin_block, standin_block_size;
extern void (*standin_barrier)();
extern unsigned standin_barriers;  // how many the running thread has passed
}
#define threadIdx standin_thread
#define blockIdx standin_block
#define blockDim standin_block_size

inline void __syncthreads() { standin_barrier(); }
inline void __syncwarp() { standin_barrier(); }  // all warps of a block call it alike
// All threads of a block call it together, as the kernels do.
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  // Two places, in turns: who is behind still reads the last values.
  static T places[2][1024];
  T* const values = places[standin_barriers % 2];
  values[standin_thread.x] = value;
  standin_barrier();
  return values[(standin_thread.x & ~31U) + (static_cast<unsigned>(lane) & 31U)];
}
inline float __uint_as_float(unsigned bits) {
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}
inline unsigned __float_as_uint(float v) {
  unsigned bits;
  std::memcpy(&bits, &v, 4);
  return bits;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<std::int8_t>(static_cast<unsigned>(a) >> 8 * i) *
         static_cast<std::int8_t>(static_cast<unsigned>(b) >> 8 * i);
  }
  return c;
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
// One thread runs at a time.
template <typename T>
T atomicCAS(T* at, T expected, T value) {
  const T old = *at;
  if (old == expected) *at = value;
  return old;
}
template <typename T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}
