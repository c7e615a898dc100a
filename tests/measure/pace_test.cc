// SPDX-License-Identifier: Apache-2.0
#include "measure/pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace xrt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(Pace, GoesOnAtOnceWhereNobodyRuns) {
  const MeasuringRules rules{{}, /*beside_runs=*/true};
  Pace pace(rules);
  std::this_thread::sleep_for(milliseconds(50));
  const auto start = Clock::now();
  pace.take_break();
  EXPECT_LT(Clock::now() - start, milliseconds(40));
}

TEST(Pace, WaitsFourTimesATurnBesideRunsThatNeverEnd) {
  const MeasuringRules rules{{}, /*beside_runs=*/true};
  Pace pace(rules);
  const UserRun run;
  std::this_thread::sleep_for(milliseconds(50));
  const auto start = Clock::now();
  pace.take_break();
  EXPECT_GE(Clock::now() - start, milliseconds(200));
  EXPECT_LT(pace.spent(), 0.15) << "breaks do not count";
}

TEST(Pace, WaitsNoLongerThanASecond) {
  const MeasuringRules rules{{}, /*beside_runs=*/true};
  Pace pace(rules);
  const UserRun run;
  std::this_thread::sleep_for(milliseconds(400));
  const auto start = Clock::now();
  pace.take_break();
  EXPECT_GE(Clock::now() - start, milliseconds(1000));
  EXPECT_LT(Clock::now() - start, milliseconds(1400));
}

TEST(Pace, GoesOnWhereRunsHaveEndedForAsLongAsTheTurn) {
  const MeasuringRules rules{{}, /*beside_runs=*/true};
  Pace pace(rules);
  { const UserRun run; }
  std::this_thread::sleep_for(milliseconds(100));
  { const UserRun run; }
  const auto start = Clock::now();
  pace.take_break();
  EXPECT_GE(Clock::now() - start, milliseconds(90));
  EXPECT_LT(Clock::now() - start, milliseconds(350));
}

TEST(Pace, DoesNotWaitWhereItIsStoppedOrRunsDoNotCount) {
  for (const bool beside : {true, false}) {
    const MeasuringRules rules{[beside] { return beside; }, beside};
    Pace pace(rules);
    const UserRun run;
    std::this_thread::sleep_for(milliseconds(50));
    const auto start = Clock::now();
    pace.take_break();
    EXPECT_LT(Clock::now() - start, milliseconds(40));
  }
}

}  // namespace
}  // namespace xrt
