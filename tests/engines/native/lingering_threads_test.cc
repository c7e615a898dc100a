// SPDX-License-Identifier: Apache-2.0
// TBB's threads, told to rest after a run.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "native_fixture.h"
#include "xrt/engine_threads.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

double processor_us() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

TEST(LingeringThreads, RestUntilTheNextRun) {
  constexpr int kSize = 192, kRuns = 40;
  Graph g;
  const Type type = Type::tensor(DType::kFloat32, Dims{kSize, kSize});
  ValueId v = g.add_input("x", type);
  const ValueId w = g.add_input("w", type);
  for (int i = 0; i < 4; ++i) v = g.add_op("MatMul", {v, w});
  g.add_output(v);
  const auto executable = compile(g);
  const auto* told = dynamic_cast<const TellsPoolUse*>(executable.get());
  ASSERT_NE(told, nullptr);
  const LingeringThreads* threads = told->lingering();
  if (threads == nullptr) GTEST_SKIP() << "TBB has too few threads here to have any at rest";

  // w is 1 / kSize everywhere: what comes out is the mean of x.
  const std::vector<Data> inputs{
      floats({kSize, kSize}, std::vector<float>(kSize * kSize, 3.0F)),
      floats({kSize, kSize}, std::vector<float>(kSize * kSize, 1.0F / kSize))};
  std::vector<double> after;
  for (int i = 0; i < kRuns; ++i) {
    const std::vector<float> found = elements(run(*executable, inputs, 1)[0].tensor());
    EXPECT_TRUE(
        std::all_of(found.begin(), found.end(), [](float y) { return y > 2.99F && y < 3.01F; }));
    run(*executable, inputs, 1);
    threads->rest();
    const double before = processor_us();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    after.push_back(processor_us() - before);
  }
  std::sort(after.begin(), after.end());
  EXPECT_LT(after[kRuns / 2], 400.0) << "us of processor time in 3 ms; those that look for work "
                                        "take 1000";
}

}  // namespace
}  // namespace xrt
