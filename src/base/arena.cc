// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace xrt {
namespace {

constexpr std::size_t kAlignment = 64;
// Of more buffers one order is tried: the time of placing them grows with their square.
constexpr std::size_t kManyBuffers = 2000;

using Buffers = std::vector<BufferLife>;  // with aligned sizes
using Order = std::vector<std::size_t>;

bool live_together(const BufferLife& a, const BufferLife& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The bytes that live at each step.
std::vector<std::size_t> live_bytes(const Buffers& buffers) {
  std::size_t steps = 1;
  for (const BufferLife& b : buffers) steps = std::max(steps, b.last + 1);
  std::vector<std::size_t> change(steps + 1, 0);  // modulo 2^64
  for (const BufferLife& b : buffers) {
    change[b.first] += b.bytes;
    change[b.last + 1] -= b.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

void place(const Buffers& buffers, const Order& order, ArenaPlan& plan) {
  plan.offsets.assign(buffers.size(), 0);
  plan.bytes = 0;
  Order placed;  // sorted by offset
  for (const std::size_t i : order) {
    const std::size_t bytes = buffers[i].bytes;
    std::size_t end = 0;  // of those so far that live at the same time
    std::size_t best = SIZE_MAX;
    std::size_t best_gap = SIZE_MAX;
    for (const std::size_t j : placed) {
      if (!live_together(buffers[i], buffers[j])) continue;
      const std::size_t offset = plan.offsets[j];
      if (offset >= end + bytes && offset - end < best_gap) {
        best = end;
        best_gap = offset - end;
      }
      end = std::max(end, offset + buffers[j].bytes);
    }
    plan.offsets[i] = best == SIZE_MAX ? end : best;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    const auto above = [&](std::size_t a, std::size_t b) {
      return plan.offsets[a] < plan.offsets[b];
    };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, above), i);
  }
}

// The larger first, by some measure.
using Measure = std::function<std::pair<std::size_t, std::size_t>(const BufferLife&)>;

Order order_by(const Buffers& buffers, const Measure& measure) {
  std::vector<std::pair<std::size_t, std::size_t>> measures;
  for (const BufferLife& b : buffers) measures.push_back(measure(b));
  Order order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return measures[a] > measures[b]; });
  return order;
}

// What sticks out at the top, or every other time something else, is placed earlier; kept while the
// block does not grow.
void improve(const Buffers& buffers, Order order, int changes, ArenaPlan& best) {
  std::minstd_rand random(1);  // the same numbers everywhere
  for (int change = 0; change < changes && best.bytes > best.live_bytes; ++change) {
    Order changed = order;
    auto from = std::max_element(changed.begin(), changed.end(), [&](auto a, auto b) {
      return best.offsets[a] + buffers[a].bytes < best.offsets[b] + buffers[b].bytes;
    });
    if (change % 2 == 1) {
      from = changed.begin() + static_cast<std::ptrdiff_t>(random() % changed.size());
    }
    const auto place_at = static_cast<std::size_t>(from - changed.begin());
    if (place_at == 0) continue;
    std::rotate(changed.begin() + static_cast<std::ptrdiff_t>(random() % place_at), from, from + 1);
    ArenaPlan trial{{}, 0, best.live_bytes};
    place(buffers, changed, trial);
    if (trial.bytes > best.bytes) continue;
    best = std::move(trial);
    order = std::move(changed);
  }
}

}  // namespace

ArenaPlan plan_arena(const std::vector<BufferLife>& buffers, int changes) {
  Buffers rounded = buffers;
  for (BufferLife& b : rounded) b.bytes = (b.bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::vector<std::size_t> live = live_bytes(rounded);
  ArenaPlan best{{}, SIZE_MAX, *std::max_element(live.begin(), live.end())};
  // What makes a buffer hard to place, so that it comes early.
  const auto steps = [](const BufferLife& b) { return b.last - b.first + 1; };
  const Measure measures[] = {
      [](const BufferLife& b) { return std::pair(b.bytes, std::size_t{0}); },
      [&](const BufferLife& b) { return std::pair(b.bytes * steps(b), std::size_t{0}); },
      [&](const BufferLife& b) { return std::pair(steps(b), std::size_t{0}); },
      [](const BufferLife& b) { return std::pair(SIZE_MAX - b.first, std::size_t{0}); },
      [&](const BufferLife& b) {
        const std::size_t* begin = live.data() + b.first;
        return std::pair(*std::max_element(begin, begin + steps(b)), b.bytes);
      },
  };
  Order best_order;
  for (const Measure& measure : measures) {
    Order order = order_by(rounded, measure);
    ArenaPlan trial{{}, 0, best.live_bytes};
    place(rounded, order, trial);
    if (trial.bytes >= best.bytes) continue;
    best = std::move(trial);
    best_order = std::move(order);
    if (best.bytes == best.live_bytes || rounded.size() > kManyBuffers) break;
  }
  if (rounded.size() > kManyBuffers) changes = 0;
  improve(rounded, std::move(best_order), changes, best);
  return best;
}

}  // namespace xrt
