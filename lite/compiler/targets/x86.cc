// SPDX-License-Identifier: Apache-2.0
// AVX2 and AVX-512 (lite/runtime/drivers/x86): one file for both. Blocks of sixteen channels; of
// int8 four factors lie together, as VNNI multiplies them.
#include "targets/target.h"

namespace xrt::lite {
namespace {

Packing packing(bool q8) { return {16, q8 ? 4 : 1}; }

class X86 : public Target {
 public:
  std::string name() const override { return "x86"; }
  std::optional<std::string> refuses(xrt_kernel_id, const void*) const override { return {}; }
  Packing pack_conv(xrt_kernel_id kernel, const xrt_k_conv&) const override {
    return packing(kernel == XRT_K_CONV_Q8);
  }
  Packing pack_gemm(xrt_kernel_id kernel, const xrt_k_gemm&) const override {
    return packing(kernel == XRT_K_GEMM_Q8);
  }
};

}  // namespace

const Target& x86_target() {
  static const X86 target;
  return target;
}

}  // namespace xrt::lite
