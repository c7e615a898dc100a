// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <algorithm>
#include <numeric>

namespace xrt {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

ArenaPlan plan_arena(const std::vector<BufferLife>& buffers) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t i : by_size) {
    std::size_t offset = 0;
    for (const std::size_t j : placed) {
      const bool overlap =
          buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      if (!overlap) continue;
      if (offset + aligned(buffers[i].bytes) <= plan.offsets[j]) break;
      offset = std::max(offset, plan.offsets[j] + aligned(buffers[j].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + aligned(buffers[i].bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) {
                                     return plan.offsets[a] < plan.offsets[b];
                                   }),
                  i);
  }
  return plan;
}

}  // namespace xrt
