// SPDX-License-Identifier: Apache-2.0
// One arena per memory: storages that never live at once share memory. Several orders of placing
// are tried, each storage at the lowest offset that is free over its life; the smallest arena is
// kept.
#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

#include "module.h"

namespace xrt::lite {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kRounds = 400;  // of improving the best order

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Block {
  std::size_t storage, bytes;
  int first, last;
  std::size_t offset = 0;
};

std::size_t place(std::vector<Block>& blocks, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> placed;
  std::size_t total = 0;
  for (const std::size_t i : order) {
    Block& b = blocks[i];
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (const std::size_t k : placed) {
      if (blocks[k].first <= b.last && b.first <= blocks[k].last) {
        taken.emplace_back(blocks[k].offset, blocks[k].offset + blocks[k].bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    std::size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (const auto& [begin, end] : taken) {
      if (begin >= at + b.bytes && begin - at < best_gap) best = at, best_gap = begin - at;
      at = std::max(at, end);
    }
    b.offset = best == SIZE_MAX ? at : best;
    total = std::max(total, b.offset + b.bytes);
    placed.push_back(i);
  }
  return total;
}

// One memory: the arena's size and the largest live set.
std::pair<std::size_t, std::size_t> plan(Module& module, int device) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < module.storages.size(); ++i) {
    const Storage& s = module.storages[i];
    if (s.input >= 0 || s.output >= 0 || s.shares >= 0 || s.bytes == 0) continue;
    if (s.device != device) continue;
    blocks.push_back({i, aligned(s.bytes), s.first, s.last});
  }
  for (const Storage& s : module.storages) {  // lives of those that are taken over reach on
    if (s.shares < 0) continue;
    int root = s.shares;
    while (module.storages[static_cast<std::size_t>(root)].shares >= 0) {
      root = module.storages[static_cast<std::size_t>(root)].shares;
    }
    for (Block& b : blocks) {
      if (b.storage == static_cast<std::size_t>(root)) b.last = std::max(b.last, s.last);
    }
  }
  std::vector<std::size_t> live(static_cast<std::size_t>(module.times) + 2, 0);
  for (const Block& b : blocks) {
    for (int t = b.first; t <= b.last; ++t) live[static_cast<std::size_t>(t)] += b.bytes;
  }
  const std::size_t largest = *std::max_element(live.begin(), live.end());

  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto by = [&](auto less) {
    std::vector<std::size_t> result = order;
    std::stable_sort(result.begin(), result.end(),
                     [&](std::size_t a, std::size_t b) { return less(blocks[a], blocks[b]); });
    return result;
  };
  const auto length = [](const Block& b) { return static_cast<std::size_t>(b.last - b.first + 1); };
  const std::vector<std::vector<std::size_t>> orders = {
      by([](const Block& a, const Block& b) { return a.bytes > b.bytes; }),
      by([&](const Block& a, const Block& b) { return a.bytes * length(a) > b.bytes * length(b); }),
      by([&](const Block& a, const Block& b) { return length(a) > length(b); }),
      by([](const Block& a, const Block& b) { return a.first < b.first; }),
      by([&](const Block& a, const Block& b) {
        const auto peak = [&](const Block& k) {
          return *std::max_element(live.begin() + k.first, live.begin() + k.last + 1);
        };
        return std::pair(peak(a), a.bytes) > std::pair(peak(b), b.bytes);
      })};
  std::vector<Block> best;
  std::size_t bytes = SIZE_MAX;
  std::vector<std::size_t> chosen;
  for (const auto& candidate : orders) {
    std::vector<Block> trial = blocks;
    const std::size_t total = place(trial, candidate);
    if (total < bytes) bytes = total, best = trial, chosen = candidate;
  }
  // What sticks out at the top, or now and then something else, is placed earlier; kept while the
  // arena does not grow.
  std::minstd_rand random(1);  // the same numbers everywhere: the same file every time
  for (int round = 0; round < kRounds && bytes > largest; ++round) {
    std::vector<std::size_t> candidate = chosen;
    auto from = std::max_element(candidate.begin(), candidate.end(), [&](auto a, auto b) {
      return best[a].offset + best[a].bytes < best[b].offset + best[b].bytes;
    });
    if (round % 2 == 1) from = candidate.begin() + static_cast<int>(random() % candidate.size());
    const auto place_at = static_cast<std::size_t>(from - candidate.begin());
    if (place_at == 0) continue;
    std::rotate(candidate.begin() + static_cast<int>(random() % place_at), from, from + 1);
    std::vector<Block> trial = blocks;
    const std::size_t total = place(trial, candidate);
    if (total > bytes) continue;
    bytes = total, best = std::move(trial), chosen = std::move(candidate);
  }
  for (const Block& b : best) module.storages[b.storage].offset = b.offset;
  return {bytes, largest};
}

}  // namespace

void plan_memory(Module& module) {
  std::tie(module.arena_bytes, module.largest_live_bytes) = plan(module, -1);
  module.device_arena_bytes.assign(module.targets.size(), 0);
  for (std::size_t t = 0; t < module.targets.size(); ++t) {
    if (module.targets[t]->host_memory()) continue;
    module.device_arena_bytes[t] = plan(module, static_cast<int>(t)).first;
  }
  for (Storage& s : module.storages) {
    int root = s.shares;
    while (root >= 0 && module.storages[static_cast<std::size_t>(root)].shares >= 0) {
      root = module.storages[static_cast<std::size_t>(root)].shares;
    }
    if (root >= 0) s.offset = module.storages[static_cast<std::size_t>(root)].offset;
  }
}

}  // namespace xrt::lite
