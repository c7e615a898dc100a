// SPDX-License-Identifier: Apache-2.0
// Places buffers with known sizes and lifetimes in one arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xrt::native {

struct Buffer {
  std::size_t bytes = 0;
  std::int32_t first = 0;  // the step that writes it
  std::int32_t last = 0;   // the last step that reads it, >= first
  std::size_t offset = 0;  // the result: a multiple of 64
};

// Sets every offset such that no two buffers alive at one step overlap; returns the arena's size.
// Large buffers are placed first, each at the lowest gap that fits.
std::size_t place_buffers(std::vector<Buffer>& buffers);

}  // namespace xrt::native
