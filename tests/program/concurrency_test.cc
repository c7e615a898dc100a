// SPDX-License-Identifier: Apache-2.0
// Many threads at once: on one program, and on programs with different engines. Numbers are small
// integers, so that every engine's result is exact and a plain loop says what it must be.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

constexpr std::int64_t kRows = 4, kSize = 16;

#ifdef XRT_SANITIZED
constexpr int kRuns = 100;  // about as long as 1,000 without
#else
constexpr int kRuns = 1000;
#endif

float weight(std::int64_t i, std::int64_t j) { return static_cast<float>((i * 7 + j * 3) % 5 - 2); }
float input(std::int64_t seed, std::int64_t k) {
  return static_cast<float>((seed * 13 + k * 5) % 7 - 3);
}

// y = relu(x · W) + |x|
Graph layer(Dim rows) {
  Graph g("layer");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{std::move(rows), kSize}));
  std::vector<float> w;
  for (std::int64_t i = 0; i < kSize; ++i) {
    for (std::int64_t j = 0; j < kSize; ++j) w.push_back(weight(i, j));
  }
  const ValueId weights = g.add_constant(
      "w", Tensor::from<float>(DType::kFloat32, {kSize, kSize}, std::span<const float>(w)));
  const ValueId product = g.add_op("MatMul", {x, weights});
  const ValueId positive = g.add_op("Relu", {product});
  const ValueId size = g.add_op("Abs", {x});
  g.add_output(g.add_op("Add", {positive, size}, {}, "y"));
  return g;
}

Tensor input_of(std::int64_t seed, std::int64_t rows) {
  Tensor x = Tensor::allocate(DType::kFloat32, {rows, kSize});
  for (std::int64_t k = 0; k < x.count(); ++k) x.data<float>()[k] = input(seed, k);
  return x;
}

bool is_right(const Tensor& y, std::int64_t seed, std::int64_t rows) {
  if (y.dims() != Dims{rows, kSize}) return false;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < kSize; ++j) {
      float sum = 0;
      for (std::int64_t i = 0; i < kSize; ++i) sum += input(seed, r * kSize + i) * weight(i, j);
      const float x = input(seed, r * kSize + j);
      const float wanted = std::max(sum, 0.0F) + (x < 0 ? -x : x);
      if (y.data<float>()[r * kSize + j] != wanted) return false;
    }
  }
  return true;
}

// `runs` runs, each with values of its own; how many were wrong.
int wrong_runs(Program& program, int runs, int thread, bool vary_rows) {
  int wrong = 0;
  for (int n = 0; n < runs; ++n) {
    const std::int64_t seed = 1009 * thread + n;
    const std::int64_t rows = vary_rows ? 1 + (thread + n) % 5 : kRows;
    const std::vector<Data> out = program.run({{"x", input_of(seed, rows)}});
    if (!is_right(std::as_const(out[0]).tensor(), seed, rows)) ++wrong;
  }
  return wrong;
}

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

class OneProgram : public ::testing::TestWithParam<std::string> {};

TEST_P(OneProgram, EightThreadsRunItAThousandTimesEach) {
  if (!testing::is_there(GetParam())) GTEST_SKIP() << GetParam() << " is not built";
  const auto program = Program::compile(layer(kRows), {.engines = {GetParam()}, .strict = true});
  std::atomic<int> wrong{0};
  in_threads(8, [&](int t) { wrong += wrong_runs(*program, kRuns, t, false); });
  EXPECT_EQ(wrong, 0);
}

TEST_P(OneProgram, EightThreadsWithShapesOfTheirOwn) {
  if (!testing::is_there(GetParam())) GTEST_SKIP() << GetParam() << " is not built";
  // Fewer plans than shapes: some go while others run them.
  const auto program = Program::compile(
      layer(Dim("rows")), {.engines = {GetParam()}, .strict = true, .max_specializations = 3});
  std::atomic<int> wrong{0};
  in_threads(8, [&](int t) { wrong += wrong_runs(*program, 10, t, true); });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, OneProgram, ::testing::Values("native", "openvino", "xla"),
                         [](const auto& info) { return info.param; });

TEST(Concurrency, EightProgramsWithDifferentEnginesAtOnce) {
  testing::picky("con_a", {"Relu", "Abs"});
  testing::picky("con_b", {"MatMul"});
  const std::vector<std::vector<std::string>> lists = {{"native"},
                                                       {"openvino", "native"},
                                                       {"xla", "native"},
                                                       {"openvino", "xla"},
                                                       {"con_a", "native"},
                                                       {"con_b", "con_a", "native"},
                                                       {"con_a", "openvino", "native"},
                                                       {"con_b", "xla", "native"}};
  std::vector<std::vector<std::string>> there;
  for (const auto& list : lists) {
    std::vector<std::string> engines;
    for (const std::string& engine : list) {
      if (testing::is_there(engine)) engines.push_back(engine);
    }
    there.push_back(engines.empty() ? std::vector<std::string>{"native"} : engines);
  }
  std::atomic<int> wrong{0};
  in_threads(8, [&](int t) {
    const auto program =
        Program::compile(layer(kRows), {.engines = there[static_cast<std::size_t>(t)]});
    wrong += wrong_runs(*program, kRuns, t, false);
  });
  EXPECT_EQ(wrong, 0);
}

// --- the thread budget --------------------------------------------------------------------------

// y = (x · W)^8 with matrices that are worth several threads.
Graph heavy() {
  constexpr std::int64_t n = 256;
  Graph g("heavy");
  ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{n, n}));
  Tensor w = Tensor::allocate(DType::kFloat32, {n, n});
  std::fill_n(w.data<float>(), w.count(), 1.0F / n);
  const ValueId weights = g.add_constant("w", w);
  for (int i = 0; i < 8; ++i) x = g.add_op("Tanh", {g.add_op("MatMul", {x, weights})});
  g.add_output(x);
  return g;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

constexpr const char* kAll = "all";

// What the eight callers run: one program, or, for kAll, a program each, on the engines in turn and
// every third one on two of them.
std::vector<std::shared_ptr<Program>> programs_of(const std::string& engine) {
  if (engine != kAll) {
    const auto program = Program::compile(heavy(), {.engines = {engine}, .strict = true});
    return std::vector<std::shared_ptr<Program>>(8, program);
  }
  std::vector<std::string> engines;
  for (const char* name : {"native", "openvino", "xla", "template"}) {
    if (testing::is_there(name)) engines.emplace_back(name);
  }
  std::vector<std::shared_ptr<Program>> programs;
  for (std::size_t i = 0; i < 8; ++i) {
    Graph graph = heavy();
    ProgramOptions options{.engines = {engines[i % engines.size()]}, .strict = true};
    if (i % 3 == 2) {
      options.engines.push_back(engines[(i + 1) % engines.size()]);
      for (const NodeId id : graph.nodes()) {
        const Node& node = graph.node(id);
        if (node.op == "Tanh") options.node_engines[node.name] = options.engines[1];
      }
    }
    programs.push_back(Program::compile(std::move(graph), options));
  }
  return programs;
}

// Run in a process of its own, because the budget is read once. Exit code: cores · 20.
TEST(ConcurrencyChild, DISABLED_MeasureCores) {
  const std::string engine = std::getenv("XRT_TEST_ENGINE");
  const std::vector<std::shared_ptr<Program>> programs = programs_of(engine);
  Tensor x = Tensor::allocate(DType::kFloat32, {256, 256});
  std::fill_n(x.data<float>(), x.count(), 0.5F);
  for (const auto& program : programs) program->run({{"x", x}});
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const double cpu = cpu_seconds();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  in_threads(8, [&](int t) {
    while (seconds() < 1.0) programs[static_cast<std::size_t>(t)]->run({{"x", x}});
  });
  const double cores = (cpu_seconds() - cpu) / seconds();
  std::printf("%s: %.2f cores\n", engine.c_str(), cores);
  std::exit(static_cast<int>(std::lround(cores * 20)));
}

class Budget : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

// Cores used by eight callers under a budget: the least of three measurements, because what else
// runs on the machine lets vendors' threads look for work for longer.
TEST_P(Budget, EightCallersStayWithinIt) {
  const auto& [engine, budget] = GetParam();
  if (engine != kAll && !testing::is_there(engine)) GTEST_SKIP() << engine << " is not built";
#ifdef XRT_SANITIZED
  GTEST_SKIP() << "a sanitizer's own work would be counted";
#endif
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "XRT_NUM_THREADS=" + std::to_string(budget) +
                              " XRT_TEST_ENGINE=" + engine + " '" + program +
                              "' --gtest_also_run_disabled_tests "
                              "--gtest_filter=ConcurrencyChild.DISABLED_MeasureCores >/dev/null";
  // Half a core more than the budget: vendors' threads look for work for a moment after a launch. A
  // run of XLA has a thread of its own, which computes beside those of XLA's pool.
  const double limit = budget + (engine == "xla" ? 1.0 : 0.5);
  double cores = 1e9;
  for (int i = 0; i < 3 && cores > limit; ++i) {
    const int status = std::system(command.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    cores = std::min(cores, WEXITSTATUS(status) / 20.0);
  }
  RecordProperty("cores", std::to_string(cores));
  EXPECT_GT(cores, 0.1) << "nothing ran";
  EXPECT_LE(cores, limit);
}

INSTANTIATE_TEST_SUITE_P(Engines, Budget,
                         ::testing::Combine(::testing::Values("native", "openvino", "xla", kAll),
                                            ::testing::Values(1, 2)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace xrt
