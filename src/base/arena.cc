// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <random>
#include <set>
#include <utility>

namespace xrt {
namespace {

constexpr std::size_t kAlignment = 64;
// Of more buffers one order is tried: the time of placing them grows with their square.
constexpr std::size_t kManyBuffers = 2000;
// Of more than these none is: they are placed in the order of their lives.
constexpr std::size_t kTooMany = 10'000;

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

// Free ranges below the end of the block, joined where they touch.
class FreeRanges {
 public:
  // Takes the narrowest range that is large enough; SIZE_MAX where there is none.
  std::size_t take(std::size_t bytes) {
    const auto found = by_bytes_.lower_bound({bytes, 0});
    if (found == by_bytes_.end()) return SIZE_MAX;
    const auto [size, offset] = *found;
    remove(by_offset_.find(offset));
    if (size > bytes) add(offset + bytes, size - bytes);
    return offset;
  }
  // Takes the range that ends at `end`, whatever its size; `end` where there is none.
  std::size_t take_last(std::size_t end) {
    if (by_offset_.empty()) return end;
    const auto last = std::prev(by_offset_.end());
    const std::size_t offset = last->first;
    if (offset + last->second != end) return end;
    remove(last);
    return offset;
  }
  void give(std::size_t offset, std::size_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = remove(next);
    }
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        remove(before);
      }
    }
    add(offset, bytes);
  }

 private:
  using Offsets = std::map<std::size_t, std::size_t>;  // to bytes

  void add(std::size_t offset, std::size_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_bytes_.emplace(bytes, offset);
  }
  Offsets::iterator remove(Offsets::iterator range) {
    by_bytes_.erase({range->second, range->first});
    return by_offset_.erase(range);
  }

  Offsets by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_bytes_;
};

// Each buffer takes what those before it have left free: n log n.
void place_in_turn(const Buffers& buffers, ArenaPlan& plan) {
  plan.offsets.assign(buffers.size(), 0);
  plan.bytes = 0;
  Order order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].first < buffers[b].first;
  });
  using End = std::pair<std::size_t, std::size_t>;  // last step, buffer
  std::priority_queue<End, std::vector<End>, std::greater<>> living;
  FreeRanges free;
  for (const std::size_t i : order) {
    while (!living.empty() && living.top().first < buffers[i].first) {
      const std::size_t gone = living.top().second;
      living.pop();
      if (buffers[gone].bytes > 0) free.give(plan.offsets[gone], buffers[gone].bytes);
    }
    living.emplace(buffers[i].last, i);
    if (buffers[i].bytes == 0) continue;
    std::size_t offset = free.take(buffers[i].bytes);
    if (offset == SIZE_MAX) {
      offset = free.take_last(plan.bytes);
      plan.bytes = offset + buffers[i].bytes;
    }
    plan.offsets[i] = offset;
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
  if (rounded.size() > kTooMany) {
    place_in_turn(rounded, best);
    return best;
  }
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
