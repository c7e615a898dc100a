// SPDX-License-Identifier: Apache-2.0
// x86 (AVX2 and AVX-512) and arm (NEON, with and without dot products): lite/runtime/tiles, with
// one file for all instruction sets of a target. Blocks of sixteen channels; of int8 four factors
// lie together, as VNNI and SDOT multiply them.
#include "targets/target.h"

namespace xrt::lite {
namespace {

Packing packing(bool q8) { return {16, q8 ? 4 : 1}; }

class Tiles : public Target {
 public:
  explicit Tiles(const char* name) : name_(name) {}
  std::string name() const override { return name_; }
  std::optional<std::string> refuses(xrt_kernel_id, const void*) const override { return {}; }
  Packing pack_conv(xrt_kernel_id kernel, const xrt_k_conv&) const override {
    return packing(kernel == XRT_K_CONV_Q8);
  }
  Packing pack_gemm(xrt_kernel_id kernel, const xrt_k_gemm&) const override {
    return packing(kernel == XRT_K_GEMM_Q8);
  }

 private:
  const char* name_;
};

}  // namespace

const Target& x86_target() {
  static const Tiles target("x86");
  return target;
}

const Target& arm_target() {
  static const Tiles target("arm");
  return target;
}

}  // namespace xrt::lite
