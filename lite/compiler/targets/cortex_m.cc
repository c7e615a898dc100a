// SPDX-License-Identifier: Apache-2.0
// Microcontrollers (lite/runtime/drivers/cortex_m): int8 factors one channel after the other,
// filled up to four, as SMLAD and MVE read them; of float four channels side by side.
#include "targets/target.h"

namespace xrt::lite {
namespace {

Packing packing(bool q8) { return q8 ? Packing{1, 4} : Packing{4, 1}; }

class CortexM : public Target {
 public:
  std::string name() const override { return "cortex-m"; }
  std::optional<std::string> refuses(xrt_kernel_id, const void*) const override { return {}; }
  std::string c_prefix(xrt_kernel_id kernel) const override {
    return kernel <= XRT_K_GEMM_Q8 ? "xrt_cortex_m_" : "xrt_generic_";
  }
  Packing pack_conv(xrt_kernel_id kernel, const xrt_k_conv&) const override {
    return packing(kernel == XRT_K_CONV_Q8);
  }
  Packing pack_gemm(xrt_kernel_id kernel, const xrt_k_gemm&) const override {
    return packing(kernel == XRT_K_GEMM_Q8);
  }
};

}  // namespace

const Target& cortex_m_target() {
  static const CortexM target;
  return target;
}

}  // namespace xrt::lite
