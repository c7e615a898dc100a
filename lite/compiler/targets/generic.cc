// SPDX-License-Identifier: Apache-2.0
// Portable C kernels (lite/runtime/drivers/generic): everything, packed by eight channels.
#include "targets/target.h"

namespace xrt::lite {
namespace {

class Generic : public Target {
 public:
  std::string name() const override { return "generic"; }
  std::optional<std::string> refuses(xrt_kernel_id, const void*) const override { return {}; }
  std::string c_prefix(xrt_kernel_id) const override { return "xrt_generic_"; }
  Packing pack_conv(xrt_kernel_id, const xrt_k_conv&) const override { return {8, 1}; }
  Packing pack_gemm(xrt_kernel_id, const xrt_k_gemm&) const override { return {8, 1}; }
};

}  // namespace

const Target& generic_target() {
  static const Generic target;
  return target;
}

}  // namespace xrt::lite
