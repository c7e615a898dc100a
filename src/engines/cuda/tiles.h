// SPDX-License-Identifier: Apache-2.0
// Which tile of a product is likely to be fast.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xrt::cuda {

inline std::int64_t tiles_of(std::int64_t count, int size) { return (count + size - 1) / size; }

// What the blocks of a tile take, in clocks.
struct TileCosts {
  double step = 0;  // of a stage, where several blocks share a processor
  double wait = 0;  // of a stage, where a block is alone
  double end = 0;   // behind the last stage
};

// Clocks, roughly, of a GPU with 132 processors: of `blocks` with `steps` stages each, whose
// threads hold `sums` each.
template <typename Tile>
double clocks_of(const Tile& tile, double blocks, double steps, double sums,
                 const TileCosts& costs) {
  constexpr double kProcessors = 132, kSharedMemory = 227 * 1024, kRegisters = 65536;
  constexpr double kStart = 1200;
  const double registers = tile.threads() * (sums + 64.0);
  const double together = std::max(
      1.0, std::min({std::floor(kSharedMemory / (tile.shared_bytes() + 1024)),
                     std::floor(kRegisters / registers), std::ceil(blocks / kProcessors)}));
  const double rounds = std::ceil(blocks / (kProcessors * together));
  return rounds * std::max(kStart + steps * costs.wait + costs.end,
                           together * (steps * costs.step + costs.end));
}

// By clocks(tile), the least first.
template <typename Tile, std::size_t count, typename Clocks>
std::vector<Tile> fastest_first(const std::array<Tile, count>& tiles, const Clocks& clocks) {
  std::vector<Tile> all(tiles.begin(), tiles.end());
  std::stable_sort(all.begin(), all.end(),
                   [&](const Tile& a, const Tile& b) { return clocks(a) < clocks(b); });
  return all;
}

}  // namespace xrt::cuda
