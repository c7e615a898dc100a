// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

extern const VectorOps kVectorOpsBaseline;
#if defined(__x86_64__)
extern const VectorOps kVectorOpsAvx2;
extern const VectorOps kVectorOpsAvx512;
void lookup_vbmi(const std::uint8_t* table, const std::uint8_t* x, std::uint8_t* y, std::int64_t n);
#endif

const VectorOps& vector_ops() {
#if defined(__x86_64__)
  static const VectorOps ops = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx2 && avx512) {
      VectorOps chosen = kVectorOpsAvx512;
      if (__builtin_cpu_supports("avx512vbmi")) chosen.lookup = lookup_vbmi;
      return chosen;
    }
    return avx2 ? kVectorOpsAvx2 : kVectorOpsBaseline;
  }();
  return ops;
#else
  return kVectorOpsBaseline;
#endif
}

}  // namespace xrt::native
