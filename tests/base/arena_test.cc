// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace xrt {
namespace {

TEST(Arena, BuffersThatLiveTogetherAreDisjoint) {
  std::mt19937 rng(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<BufferLife> buffers(1 + rng() % 40);
    for (BufferLife& b : buffers) {
      b.bytes = rng() % 5000;
      b.first = rng() % 20;
      b.last = b.first + rng() % 6;
    }
    const ArenaPlan plan = plan_arena(buffers, round % 2 == 0 ? 0 : 20);
    EXPECT_GE(plan.bytes, plan.live_bytes);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0U);
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together =
            buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        if (!together || buffers[i].bytes == 0 || buffers[j].bytes == 0) continue;
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart) << i << " and " << j;
      }
    }
  }
}

TEST(Arena, TensOfThousandsAreDisjointAndSoonPlaced) {
  std::mt19937 rng(2);
  std::vector<BufferLife> buffers(200'000);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i] = {rng() % 5000, i, i + rng() % 4};
  }
  const ArenaPlan plan = plan_arena(buffers);
  EXPECT_LE(plan.bytes, 4 * plan.live_bytes);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::size_t j = i + 1; j < std::min(i + 4, buffers.size()); ++j) {
      if (buffers[j].first > buffers[i].last) break;
      if (buffers[i].bytes == 0 || buffers[j].bytes == 0) continue;
      const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
      ASSERT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST(Arena, MemoryIsReused) {
  const ArenaPlan plan = plan_arena({{1024, 0, 1}, {1024, 1, 2}, {1024, 2, 3}, {1024, 3, 4}});
  EXPECT_EQ(plan.bytes, 2048U);
  EXPECT_EQ(plan.live_bytes, 2048U);
  EXPECT_EQ(plan_arena({}).bytes, 0U);
}

TEST(Arena, ChangesOfTheOrderMakeItSmaller) {
  std::mt19937 rng(3);
  std::size_t before = 0, after = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<BufferLife> buffers(30);
    for (BufferLife& b : buffers) {
      b.bytes = 1 + rng() % 5000;
      b.first = rng() % 30;
      b.last = b.first + rng() % 8;
    }
    const ArenaPlan first = plan_arena(buffers);
    const ArenaPlan better = plan_arena(buffers, 400);
    EXPECT_LE(better.bytes, first.bytes);
    EXPECT_EQ(plan_arena(buffers, 400).offsets, better.offsets);
    before += first.bytes;
    after += better.bytes;
  }
  EXPECT_LT(after, before);
}

}  // namespace
}  // namespace xrt
