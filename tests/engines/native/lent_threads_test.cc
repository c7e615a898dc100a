// SPDX-License-Identifier: Apache-2.0
// Threads that the calling program lends to the native engine.
#include <algorithm>
#include <atomic>
#include <thread>

#include "device/host_threads.h"
#include "native_fixture.h"
#include "tests/support/engine_calls.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

// A pool as an OpenMP library has it, with new threads for each region.
thread_local int number = 0;
thread_local int team = 1;
std::atomic<int> regions{0};
std::atomic<int> most{64};  // threads in a region

void parallel(void (*body)(void*), void* data, unsigned count, unsigned) {
  ++regions;
  const int outer = team;
  const int size = outer > 1 ? 1 : std::min(static_cast<int>(count), most.load());
  std::vector<std::thread> others;
  for (int i = 1; i < size; ++i) {
    others.emplace_back([=] {
      number = i;
      team = size;
      body(data);
    });
  }
  team = size;
  body(data);
  team = outer;
  for (std::thread& other : others) other.join();
}

HostThreads pool(int count) {
  return {parallel, [] { return number; }, [] { return team; }, count};
}

// Products by a matrix of ones with tanh between them: all stay positive. Then 1, 2, 3 ... in rows.
std::shared_ptr<const Executable> products(Graph& g) {
  const Type type = Type::tensor(DType::kFloat32, Dims{64, 128});
  ValueId v = g.add_input("x", type);
  const ValueId w = g.add_input("w", Type::tensor(DType::kFloat32, Dims{128, 128}));
  for (int i = 0; i < 30; ++i) {
    v = g.add_op("MatMul", {v, w});
    v = g.add_op("Tanh", {g.add_op("Mul", {v, g.add_constant("", floats({}, {0.25F}))})});
  }
  g.add_output(g.add_op("CumSum", {g.add_op("Sign", {v}), g.add_constant("", int64s({}, {1}))}));
  return compile(g);
}

bool is_right(const Executable& executable) {
  const std::vector<Data> inputs{floats({64, 128}, std::vector<float>(64 * 128, 1.0F)),
                                 floats({128, 128}, std::vector<float>(128 * 128, 1.0F))};
  const std::vector<float> found = elements(run(executable, inputs, 1)[0].tensor());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != static_cast<float>(i % 128 + 1)) return false;
  }
  return true;
}

TEST(LentThreads, AreLentWhileTheObjectLives) {
  EXPECT_EQ(lent_threads(), nullptr);
  {
    const LendThreads lend(pool(3));
    ASSERT_NE(lent_threads(), nullptr);
    EXPECT_EQ(lent_threads()->count, 3);
    std::thread([] { EXPECT_EQ(lent_threads(), nullptr); }).join();
  }
  EXPECT_EQ(lent_threads(), nullptr);
}

TEST(LentThreads, ComputeForTheEngine) {
  Graph g;
  const auto executable = products(g);
  regions = 0;
  EXPECT_TRUE(is_right(*executable));
  EXPECT_EQ(regions, 0);
  const LendThreads lend(pool(2));
  EXPECT_TRUE(is_right(*executable));
  EXPECT_EQ(regions, 1);
}

TEST(LentThreads, OfAnotherNumberAreLeftAlone) {
  Graph g;
  const auto executable = products(g);
  regions = 0;
  const LendThreads lend(pool(3));
  EXPECT_TRUE(is_right(*executable));
  EXPECT_EQ(regions, 0);
}

TEST(LentThreads, MayNotCome) {
  Graph g;
  const auto executable = products(g);
  const LendThreads lend(pool(2));
  most = 1;
  EXPECT_TRUE(is_right(*executable));
  most = 64;
  EXPECT_TRUE(is_right(*executable));
}

TEST(LentThreads, ErrorsComeToTheCaller) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{3, 3}));
  const ValueId i = g.add_input("i", Type::tensor(DType::kInt64, Dims{1}));
  g.add_output(g.add_op("Gather", {g.add_op("MatMul", {x, x}), i}));
  const auto executable = compile(g);
  const LendThreads lend(pool(2));
  std::vector<Data> outputs(1);
  const Tensor ones = floats({3, 3}, std::vector<float>(9, 1.0F));
  EXPECT_THROW(run_once(*executable, nullptr, std::vector<Data>{ones, int64s({1}, {3})}, outputs),
               Error);
  EXPECT_EQ(elements(run(*executable, {ones, int64s({1}, {-1})}, 1)[0].tensor()),
            (std::vector<float>{3, 3, 3}));
}

TEST(LentThreads, RunsBesideEachOther) {
  Graph g;
  Graph h;
  const std::shared_ptr<const Executable> executables[] = {products(g), products(h)};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      const LendThreads lend(pool(2));
      for (int i = 0; i < 25; ++i) wrong += is_right(*executables[(caller + i) % 2]) ? 0 : 1;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace xrt
