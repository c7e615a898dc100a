// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/vector_ops.h"

#include "engines/native/kernels/vector/instruction_sets.h"

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
    const InstructionSets& sets = instruction_sets();
    if (sets.avx512) {
      VectorOps chosen = kVectorOpsAvx512;
      if (sets.vbmi) chosen.lookup = lookup_vbmi;
      return chosen;
    }
    return sets.avx2 ? kVectorOpsAvx2 : kVectorOpsBaseline;
  }();
  return ops;
#else
  return kVectorOpsBaseline;
#endif
}

}  // namespace xrt::native
