// SPDX-License-Identifier: Apache-2.0
// The contest of near-equals, with things whose times are made up and a clock that they move.
#include "measure/contest.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace xrt {
namespace {

struct FakeThings {
  std::vector<double> us;  // of each
  double noise = 0.0;      // up to this share more, at random
  double drift = 0.0;      // all get slower by this share per second
  std::mt19937 rng{7};
  double now = 0.0;
  std::vector<int> turns = std::vector<int>(us.size(), 0);

  std::size_t fastest(const ContestLimits& limits) {
    ContestRules rules;
    rules.turn = [this](std::size_t i) {
      ++turns[i];
      const double random = static_cast<double>(rng()) / static_cast<double>(std::mt19937::max());
      const double taken = us[i] * (1 + noise * random) * (1 + drift * now);
      now += taken * 1e-6;
      return taken;
    };
    rules.now_s = [this] { return now; };
    return contest(us.size(), limits, rules);
  }
};

TEST(Contest, FindsTheFastestAmongNoiseAndDrift) {
  // A tenth of noise on a difference of 4 %, while everything gets twice as slow.
  int right = 0;
  constexpr int kContests = 200;
  for (int n = 0; n < kContests; ++n) {
    FakeThings things{.us = {10400, 10000, 10500}, .noise = 0.1, .drift = 1.0};
    things.rng.seed(static_cast<std::uint32_t>(n));
    right += things.fastest({.seconds = 1.0}) == 1 ? 1 : 0;
  }
  EXPECT_GE(right, kContests * 95 / 100);
}

TEST(Contest, TheSlowAreOutEarly) {
  FakeThings things{.us = {1000, 1010, 2000}, .noise = 0.05};
  EXPECT_LE(things.fastest({.maximum = 40, .seconds = 100}), 1U);
  EXPECT_LE(things.turns[2], 7);
  EXPECT_GT(things.turns[0], 7);
}

TEST(Contest, EqualsDoNotUseUpTheTime) {
  FakeThings things{.us = {1000, 1001}};
  EXPECT_EQ(things.fastest({.seconds = 100}), 0U);
  EXPECT_LE(things.turns[0], 10);
}

TEST(Contest, TheFirstOfEqualsWins) {
  // Half a percent is nothing: what stands first is preferred, wherever the faster one stands.
  EXPECT_EQ((FakeThings{.us = {1005, 1000, 1003}, .noise = 0.02}.fastest({.seconds = 100})), 0U);
  EXPECT_EQ((FakeThings{.us = {1200, 1004, 1000}, .noise = 0.02}.fastest({.seconds = 100})), 1U);
}

TEST(Contest, FourPercentAreTold) {
  int right = 0;
  constexpr int kContests = 200;
  for (int n = 0; n < kContests; ++n) {
    FakeThings things{.us = {1040, 1000}, .noise = 0.1};
    things.rng.seed(static_cast<std::uint32_t>(n));
    right += things.fastest({.seconds = 100}) == 1 ? 1 : 0;
  }
  EXPECT_GE(right, kContests * 98 / 100);
}

TEST(Contest, WhatIsUncertainGetsMoreRounds) {
  FakeThings calm{.us = {1030, 1000}, .noise = 0.01};
  FakeThings noisy{.us = {1030, 1000}, .noise = 0.2};
  calm.fastest({.seconds = 100});
  noisy.fastest({.seconds = 100});
  EXPECT_LE(calm.turns[1], 8);
  EXPECT_GE(noisy.turns[1], 2 * calm.turns[1]);
}

TEST(Contest, KeepsWithinItsLimits) {
  FakeThings slow{.us = {0.6e6, 0.5e6}, .noise = 0.3};
  slow.fastest({.seconds = 2.0});
  EXPECT_LT(slow.now, 2.0 + 1.5);  // a round that has begun ends
  FakeThings noisy{.us = {10, 10}, .noise = 5};
  noisy.fastest({.maximum = 12, .seconds = 100, .enough = 0});
  EXPECT_LE(noisy.turns[0], 12);
  FakeThings none{.us = {2, 1}};
  EXPECT_EQ(none.fastest({.seconds = 0}), 0U);
  EXPECT_EQ(none.turns[0], 0);
  FakeThings single{.us = {2}};
  EXPECT_EQ(single.fastest({}), 0U);
  EXPECT_EQ(single.turns[0], 0);
}

}  // namespace
}  // namespace xrt
