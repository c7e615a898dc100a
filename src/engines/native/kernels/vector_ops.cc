// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector_ops.h"

namespace xrt::native {

extern const VectorOps kVectorOpsBaseline;
#if defined(__x86_64__)
extern const VectorOps kVectorOpsAvx2;
extern const VectorOps kVectorOpsAvx512;
#endif

const VectorOps& vector_ops() {
#if defined(__x86_64__)
  static const VectorOps& ops = [&]() -> const VectorOps& {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx2 && avx512) return kVectorOpsAvx512;
    return avx2 ? kVectorOpsAvx2 : kVectorOpsBaseline;
  }();
  return ops;
#else
  return kVectorOpsBaseline;
#endif
}

}  // namespace xrt::native
