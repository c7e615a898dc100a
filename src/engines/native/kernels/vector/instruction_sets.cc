// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/instruction_sets.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace xrt::native {

const InstructionSets& instruction_sets() {
  static const InstructionSets sets = [] {
    InstructionSets found;
#if defined(__x86_64__)
    const auto allowed = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto allows = [allowed](dnnl::cpu_isa isa) {
      return (allowed & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
    };
    __builtin_cpu_init();
    found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 allows(dnnl::cpu_isa::avx2);
    found.avx512 = found.avx2 && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl") && allows(dnnl::cpu_isa::avx512_core);
    found.vbmi = found.avx512 && __builtin_cpu_supports("avx512vbmi");
    found.vnni = found.avx512 && __builtin_cpu_supports("avx512vnni") &&
                 allows(dnnl::cpu_isa::avx512_core_vnni);
#endif
    return found;
  }();
  return sets;
}

}  // namespace xrt::native
