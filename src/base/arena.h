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
  std::size_t live_bytes = 0;        // of all that lives at one step, at most: no block is smaller
};

// Buffers whose lives overlap get disjoint ranges. Several orders of placing them are tried, each
// buffer in the narrowest gap that is free during its life, and the smallest block is kept; then so
// many changes of the best order are tried. Of thousands of
// buffers one order is tried; tens of thousands are placed as they come. The same
// buffers give the same plan everywhere.
XRT_API ArenaPlan plan_arena(const std::vector<BufferLife>& buffers, int changes = 0);

}  // namespace xrt
