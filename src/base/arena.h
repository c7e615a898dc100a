// SPDX-License-Identifier: Apache-2.0
// Offsets for buffers that live at different times in one block of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "xrt/export.h"

namespace xrt {

struct BufferLife {
  std::size_t bytes = 0;
  std::size_t first = 0;  // step that writes it
  std::size_t last = 0;   // last step that reads it, >= first
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  // one per buffer, multiples of 64
  std::size_t bytes = 0;             // of the whole block
};

// Buffers whose lives overlap get disjoint ranges. Largest first, each at the lowest offset that
// is free during its life.
XRT_API ArenaPlan plan_arena(const std::vector<BufferLife>& buffers);

}  // namespace xrt
