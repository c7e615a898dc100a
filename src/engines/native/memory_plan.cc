// SPDX-License-Identifier: Apache-2.0
#include "engines/native/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace xrt::native {

namespace {
constexpr std::size_t kAlignment = 64;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
}  // namespace

std::size_t place_buffers(std::vector<Buffer>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::vector<const Buffer*> placed;  // by offset
  std::size_t total = 0;
  for (const std::size_t index : order) {
    Buffer& buffer = buffers[index];
    const std::size_t bytes = aligned(buffer.bytes);
    std::size_t end = 0;  // of the placed buffers so far that are alive at the same time
    std::size_t best = SIZE_MAX;
    for (const Buffer* other : placed) {
      if (other->last < buffer.first || buffer.last < other->first) continue;
      if (other->offset >= end + bytes) {
        best = end;
        break;
      }
      end = std::max(end, other->offset + aligned(other->bytes));
    }
    buffer.offset = best == SIZE_MAX ? end : best;
    total = std::max(total, buffer.offset + bytes);
    const auto place =
        std::upper_bound(placed.begin(), placed.end(), &buffer,
                         [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
    placed.insert(place, &buffer);
  }
  return total;
}

}  // namespace xrt::native
