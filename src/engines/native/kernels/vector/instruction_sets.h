// SPDX-License-Identifier: Apache-2.0
// Which instruction sets inner loops may use: those that this CPU has, but for what
// ONEDNN_MAX_CPU_ISA forbids to oneDNN. So one variable measures and tests the whole engine as a
// smaller processor has it.
#pragma once

namespace xrt::native {

struct InstructionSets {
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, BW, DQ, VL
  bool vbmi = false;    // with avx512
  bool vnni = false;    // with avx512
};

// Looked up once in a process.
const InstructionSets& instruction_sets();

}  // namespace xrt::native
