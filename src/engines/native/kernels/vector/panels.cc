// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/panels.h"

#include "engines/native/kernels/vector/instruction_sets.h"

namespace xrt::native {

extern const PanelOps kPanelOpsBaseline;
#if defined(__x86_64__)
extern const PanelOps kPanelOpsAvx2;
extern const PanelOps kPanelOpsAvx512;
void multiply_byte_panel_vnni(const std::uint8_t* x, std::int64_t x_step, std::int64_t rows,
                              std::int64_t quads, const std::int8_t* w, std::int32_t* y,
                              std::int64_t y_step);
void multiply_block_bytes_vnni(const BlockPanel& w, const std::int8_t* x, std::int64_t x_step,
                               std::int64_t rows, const float* scales, const std::int32_t* totals,
                               std::int64_t step, float* y, std::int64_t y_step);
#endif

const PanelOps& panel_ops() {
#if defined(__x86_64__)
  static const PanelOps ops = [] {
    const InstructionSets& sets = instruction_sets();
    if (sets.avx512) {
      PanelOps chosen = kPanelOpsAvx512;
      if (sets.vnni) {
        chosen.multiply_bytes = multiply_byte_panel_vnni;
        chosen.multiply_block_bytes = multiply_block_bytes_vnni;
      }
      return chosen;
    }
    return sets.avx2 ? kPanelOpsAvx2 : kPanelOpsBaseline;
  }();
  return ops;
#else
  return kPanelOpsBaseline;
#endif
}

}  // namespace xrt::native
