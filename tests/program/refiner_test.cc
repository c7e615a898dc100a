// SPDX-License-Identifier: Apache-2.0
// Measuring beside the runs, which is what engine "auto" does where nothing is said.
#include "program/refiner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "measure/contention.h"
#include "measure/profile_cache.h"
#include "tests/support/sleepy_engine.h"
#include "xrt/onnx.h"
#include "xrt/program.h"

namespace xrt {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::sleepy;
using testing::SleepyEngine;

// Engines that sleep take as long on a busy machine.
const bool kDisregard = Contention::disregarded = true;
// Nothing is read from the user's folder, or written there.
const bool kNoCache = ::setenv("XRT_CACHE_DIR", "", 1) == 0;

constexpr const char* kWaiting = "estimated, to be measured beside the runs";

// x → Relu → Exp; a graph of another name is another one.
Graph small_graph(const std::string& output, const Shape& shape = {Dim(4)}) {
  Graph g("small");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, shape));
  g.add_output(g.add_op("Exp", {g.add_op("Relu", {x})}, {}, output));
  return g;
}

void expect_right(Program& program, std::int64_t count = 4) {
  Tensor x = Tensor::allocate(DType::kFloat32, {count});
  for (std::int64_t i = 0; i < count; ++i) x.data<float>()[i] = static_cast<float>(i % 8) - 1;
  const std::vector<Data> y = program.run({{"x", x}});
  for (std::int64_t i = 0; i < count; ++i) {
    const float expected = std::exp(std::max(x.data<float>()[i], 0.0F));
    ASSERT_NEAR(y.at(0).tensor().data<float>()[i], expected, 1e-4F * expected);
  }
}

std::string engine_of_exp(Program& program) {
  for (const auto& row : program.explain().nodes) {
    if (row.op == "Exp") return row.engine;
  }
  return "";
}

// Runs until the program's placement is no longer `from`; true if that took at most `limit`.
bool run_until_changed(Program& program, const std::string& from, Clock::duration limit,
                       milliseconds gap = milliseconds(1)) {
  const auto end = Clock::now() + limit;
  while (Clock::now() < end) {
    expect_right(program);
    if (program.explain().placement != from) return true;
    std::this_thread::sleep_for(gap);
  }
  return false;
}

TEST(MeasuringBesideRuns, IsTheDefaultAndSwapsTheBetterPlanInWhileThreadsRun) {
  sleepy("swap_slow", {{"Exp", 3000}});
  sleepy("swap_fast", {{"Exp", 100}});
  const auto program =
      Program::compile(small_graph("swap"), {.engines = {"auto", "swap_slow", "swap_fast"}});
  EXPECT_EQ(program->explain().placement, kWaiting);
  EXPECT_EQ(engine_of_exp(*program), "swap_slow") << "nothing is known, so the first";
  std::atomic<bool> swapped{false};
  std::vector<std::thread> threads;
  const auto deadline = Clock::now() + seconds(60);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      int after = 0;
      while (after < 20 && Clock::now() < deadline) {
        ASSERT_NO_FATAL_FAILURE(expect_right(*program));
        if (program->explain().placement == "measured") swapped = true;
        if (swapped) ++after;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(swapped) << "a busy server is measured in the end";
  EXPECT_EQ(engine_of_exp(*program), "swap_fast");
  const Explanation e = program->explain();
  ASSERT_EQ(e.candidates.size(), 2U);
  EXPECT_GT(e.candidates[1].measured_us, e.candidates[0].measured_us);
  EXPECT_TRUE(std::any_of(e.notes.begin(), e.notes.end(), [](const std::string& note) {
    return note.find("auto: measured on ") == 0;
  })) << "when";
}

// An engine whose launches share a pool of threads and may run at once, as the native one's; it
// counts those that do.
class PooledEngine : public testing::PickyEngine {
 public:
  using PickyEngine::PickyEngine;

  Support supports(const SupportQuery&) const override { return Support::yes(); }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return std::make_shared<Pooled>(get_engine("native")->compile(function, options));
  }

  static inline std::atomic<int> running{0}, most{0};

 private:
  class Pooled : public Executable {
   public:
    explicit Pooled(std::shared_ptr<const Executable> inner) : inner_(std::move(inner)) {}
    ExecutableInfo info() const override {
      return {.threads = 1, .pool = &running, .runs_at_once = 2};
    }
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(const RunArgs& args) const override {
      most = std::max(most.load(), ++running);
      std::this_thread::sleep_for(milliseconds(2));
      inner_->run(args);
      --running;
    }

   private:
    std::shared_ptr<const Executable> inner_;
  };
};

TEST(MeasuringBesideRuns, TimesNothingWhileALaunchRuns) {
  register_engine(std::make_shared<PooledEngine>("pooled_a", std::set<std::string>{}));
  register_engine(std::make_shared<PooledEngine>("pooled_b", std::set<std::string>{}));
  const auto program =
      Program::compile(small_graph("pooled"), {.engines = {"auto", "pooled_a", "pooled_b"}});
  EXPECT_TRUE(run_until_changed(*program, kWaiting, seconds(60), milliseconds(0)));
  EXPECT_EQ(PooledEngine::most, 1) << "one caller, and the measurement between its runs";
}

TEST(MeasuringBesideRuns, AProgramOfAMomentIsNotMeasured) {
  const auto a = sleepy("moment_a", {});
  const auto b = sleepy("moment_b", {});
  const auto program =
      Program::compile(small_graph("moment"), {.engines = {"auto", "moment_a", "moment_b"}});
  const auto end = Clock::now() + milliseconds(700);
  while (Clock::now() < end) expect_right(*program);
  EXPECT_EQ(a->compiled, 1);
  EXPECT_EQ(b->compiled, 0);
  EXPECT_EQ(program->explain().placement, kWaiting);
}

TEST(MeasuringBesideRuns, FastMeasuresNothing) {
  const auto a = sleepy("fast_a", {});
  const auto b = sleepy("fast_b", {});
  const auto program = Program::compile(
      small_graph("fast"), {.engines = {"auto", "fast_a", "fast_b"}, .auto_mode = "fast"});
  EXPECT_FALSE(run_until_changed(*program, "estimated", milliseconds(1800)));
  EXPECT_EQ(a->compiled, 1);
  EXPECT_EQ(b->compiled, 0);
}

// Compiles slowly, but for the first time.
class SlowCompiler : public SleepyEngine {
 public:
  explicit SlowCompiler(std::string name) : SleepyEngine(std::move(name), {}, 0) {}
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    compiling = true;
    std::this_thread::sleep_for(seconds(2));
    return SleepyEngine::compile(function, options);
  }
  mutable std::atomic<bool> compiling{false};
};

TEST(MeasuringBesideRuns, AProgramGoesAtOnce) {
  sleepy("gone_a", {});
  const auto slow = std::make_shared<SlowCompiler>("gone_b");
  register_engine(slow);
  auto program = Program::compile(small_graph("gone"), {.engines = {"auto", "gone_a", "gone_b"}});
  const auto deadline = Clock::now() + seconds(20);
  while (!slow->compiling && Clock::now() < deadline) {
    expect_right(*program);
    std::this_thread::sleep_for(milliseconds(1));
  }
  ASSERT_TRUE(slow->compiling);
  const auto start = Clock::now();
  program.reset();
  EXPECT_LT(Clock::now() - start, milliseconds(500));
}

// Takes the whole budget of threads, and counts who does so at once.
class Greedy : public SleepyEngine {
 public:
  Greedy(std::string name, int us) : SleepyEngine(std::move(name), {{"Exp", us}}, 0) {}
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return std::make_shared<Counting>(SleepyEngine::compile(function, options),
                                      options.num_threads);
  }
  static std::atomic<int> running, most;

 private:
  class Counting : public Executable {
   public:
    Counting(std::shared_ptr<const Executable> inner, int threads)
        : inner_(std::move(inner)), info_(inner_->info()) {
      info_.threads = threads;
    }
    ExecutableInfo info() const override { return info_; }
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(const RunArgs& args) const override {
      const int now = ++running;
      int before = most;
      while (before < now && !most.compare_exchange_weak(before, now)) {
      }
      inner_->run(args);
      --running;
    }

   private:
    std::shared_ptr<const Executable> inner_;
    ExecutableInfo info_;
  };
};
std::atomic<int> Greedy::running{0};
std::atomic<int> Greedy::most{0};

TEST(MeasuringBesideRuns, KeepsTheBudgetOfThreadsUnderLoad) {
  const auto a = std::make_shared<Greedy>("greedy_a", 2000);
  const auto b = std::make_shared<Greedy>("greedy_b", 500);
  register_engine(a);
  register_engine(b);
  const auto program =
      Program::compile(small_graph("greedy"), {.engines = {"auto", "greedy_a", "greedy_b"}});
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!done) expect_right(*program);
    });
  }
  EXPECT_TRUE(run_until_changed(*program, kWaiting, seconds(60)));
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(engine_of_exp(*program), "greedy_b");
  EXPECT_GT(b->compiled, 0);
  EXPECT_EQ(Greedy::most, 1) << "every launch wants all threads";
}

TEST(MeasuringBesideRuns, ShapesAreMeasuredUntilTheBudgetIsSpent) {
  sleepy("shape_a", {{"Exp", 3000}});
  const auto b = sleepy("shape_b", {{"Exp", 100}});
  const auto program =
      Program::compile(small_graph("shape", {Dim("N")}),
                       {.engines = {"auto", "shape_a", "shape_b"}, .auto_budget_s = 0.001});
  EXPECT_TRUE(run_until_changed(*program, kWaiting, seconds(30)));
  EXPECT_EQ(program->explain().placement, "measured");
  const std::string first = engine_of_exp(*program);
  expect_right(*program, 7);
  EXPECT_EQ(program->explain().placement, "measured for other shapes");
  EXPECT_EQ(engine_of_exp(*program), first);
}

// Takes any size. A run takes `us` and `element_us` for each element; one of other sizes than the
// run before `change_us` more, one of sizes that the executable has not seen `first_us` more, and
// one that begins later than kAwake after the run before `waking_us` more.
class SizeAware : public testing::PickyEngine {
 public:
  struct Costs {
    int us = 0, change_us = 0, first_us = 0, waking_us = 0, element_us = 0;
  };
  // Less than the rest that measuring takes for a pause, more than a busy machine keeps a thread.
  static constexpr milliseconds kAwake{4};
  SizeAware(std::string name, Costs costs) : PickyEngine(std::move(name), {}), costs_(costs) {
    info_.shapes = Shapes::kAny;
  }
  Support supports(const SupportQuery&) const override { return Support::yes(); }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return std::make_shared<Aware>(get_engine("native")->compile(function, options), costs_);
  }

 private:
  class Aware : public Executable {
   public:
    Aware(std::shared_ptr<const Executable> inner, Costs costs)
        : inner_(std::move(inner)), costs_(costs) {}
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(const RunArgs& args) const override {
      const std::int64_t count = data_of(args).inputs[0].tensor().count();
      int us = costs_.us + costs_.element_us * static_cast<int>(count);
      {
        const std::lock_guard lock(mutex_);
        if (std::exchange(last_, count) != count) us += costs_.change_us;
        if (seen_.insert(count).second) us += costs_.first_us;
        if (Clock::now() - end_ > kAwake) us += costs_.waking_us;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      inner_->run(args);
      const std::lock_guard lock(mutex_);
      end_ = Clock::now();
    }

   private:
    std::shared_ptr<const Executable> inner_;
    Costs costs_;
    mutable std::mutex mutex_;
    mutable std::int64_t last_ = 0;
    mutable std::set<std::int64_t> seen_;
    mutable Clock::time_point end_{};
  };

  Costs costs_;
};

std::string aware(const std::string& name, SizeAware::Costs costs) {
  register_engine(std::make_shared<SizeAware>(name, costs));
  return name;
}

// Who runs the plan with open dimensions once it is measured; `next` gives the sizes.
std::string measured_for(const std::vector<std::string>& engines, const std::string& output,
                         const std::function<std::int64_t()>& next) {
  const auto program =
      Program::compile(small_graph(output, {Dim("N")}),
                       {.engines = {"auto", engines.at(0), engines.at(1)}, .auto_budget_s = 5});
  // Have plans of their own.
  for (const std::int64_t size : {1, 2}) expect_right(*program, size);
  const auto end = Clock::now() + seconds(60);
  while (Clock::now() < end) {
    expect_right(*program, next());
    if (program->explain().placement == "measured") return engine_of_exp(*program);
  }
  return "";
}

TEST(MeasuringBesideRuns, SizesThatDifferFromRunToRunAreTimedSo) {
  const std::vector<std::string> engines{aware("changes_slow", {.us = 100, .change_us = 5000}),
                                         aware("changes_even", {.us = 1000})};
  std::int64_t run = 0;
  EXPECT_EQ(measured_for(engines, "changes", [&] { return 3 + run++ % 7; }), "changes_even");
  EXPECT_EQ(measured_for(engines, "stays", [&] { return run++ == 20 ? 5 : 4; }), "changes_slow");
}

TEST(MeasuringBesideRuns, WhatNewSizesTakeCountsWhereTheyKeepComing) {
  // Of each pair the first begins, so that its first runs are those of the user.
  for (const bool begins : {true, false}) {
    const std::string suffix = begins ? "_begins" : "_follows";
    std::vector<std::string> engines{aware("new_slow" + suffix, {.us = 100, .first_us = 20000}),
                                     aware("new_even" + suffix, {.us = 1000})};
    if (!begins) std::swap(engines[0], engines[1]);
    std::int64_t run = 0;
    EXPECT_EQ(measured_for(engines, "new" + suffix, [&] { return 3 + run++; }),
              "new_even" + suffix);
    EXPECT_EQ(measured_for(engines, "old" + suffix, [&] { return 3 + run++ % 7; }),
              "new_slow" + suffix);
  }
}

TEST(MeasuringBefore, ARangeIsTimedFromItsLeastToItsLargestSize) {
  const std::vector<std::string> engines{aware("range_grows", {.us = 100, .element_us = 10}),
                                         aware("range_even", {.us = 1000})};
  const auto chosen = [&](const std::string& output, const std::string& range) {
    const auto program = Program::compile(small_graph(output, {Dim("N")}),
                                          {.engines = {"auto", engines[0], engines[1]},
                                           .auto_mode = "full",
                                           .ranges = {{"N", range}}});
    EXPECT_EQ(program->explain().placement, "measured");
    const std::string engine = engine_of_exp(*program);
    for (const std::int64_t size : {1, 5, 20}) expect_right(*program, size);
    EXPECT_EQ(engine_of_exp(*program), engine) << "one plan for all sizes of the range";
    return engine;
  };
  EXPECT_EQ(chosen("short_range", "1:10:20"), "range_grows");
  EXPECT_EQ(chosen("long_range", "1:10:1000"), "range_even") << "its largest size counts";
}

TEST(MeasuringBefore, AnEngineOfFixedSizesIsLeftOutWhereTheyAreOpen) {
  const auto fixed = sleepy("fixed_sizes", {{"Exp", 1}});
  const std::string any = aware("any_sizes", {.us = 100});
  const auto program = Program::compile(
      small_graph("left_out", {Dim("N")}),
      {.engines = {"auto", "fixed_sizes", any}, .auto_mode = "full", .ranges = {{"N", "1:4:8"}}});
  const std::vector<Explanation::CandidateRow> rows = program->explain().candidates;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].plan, any + ",native");
  EXPECT_EQ(rows[1].plan, "fixed_sizes,native");
  EXPECT_NE(rows[1].note.find("it wants fixed sizes"), std::string::npos) << rows[1].note;
  EXPECT_EQ(fixed->compiled, 0);
}

TEST(MeasuringBesideRuns, PausesBetweenRunsAreKept) {
  const std::vector<std::string> engines{aware("pauses_slow", {.us = 100, .waking_us = 2500}),
                                         aware("pauses_even", {.us = 1000})};
  const auto after = [&](const std::string& output, milliseconds pause, bool changes) {
    std::int64_t run = 0;
    return measured_for(engines, output, [&] {
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      return changes ? 3 + run++ % 7 : 1;
    });
  };
  EXPECT_EQ(after("pauses_open", milliseconds(15), true), "pauses_even");
  EXPECT_EQ(after("pauses_fixed", milliseconds(15), false), "pauses_even");
  EXPECT_EQ(after("no_pauses", milliseconds(0), true), "pauses_slow");
}

TEST(MeasuringBesideRuns, AFailureIsToldByTheExplanation) {
  // Works once, for the plan that serves.
  class Once : public SleepyEngine {
   public:
    Once() : SleepyEngine("once", {}, 0) {}
    std::shared_ptr<const Executable> compile(const Function& function,
                                              const CompileOptions& options) const override {
      if (compiled > 0) throw Error(ErrorCode::kEngine, "out of order");
      return SleepyEngine::compile(function, options);
    }
  };
  class Never : public SleepyEngine {
   public:
    Never() : SleepyEngine("never", {}, 0) {}
    std::shared_ptr<const Executable> compile(const Function&,
                                              const CompileOptions&) const override {
      throw Error(ErrorCode::kEngine, "never in order");
    }
  };
  register_engine(std::make_shared<Once>());
  register_engine(std::make_shared<Never>());
  const auto program = Program::compile(small_graph("failure"),
                                        {.engines = {"auto", "once", "never"}, .auto_budget_s = 5});
  // The served executable is in use, so measuring finds it; the other candidate fails.
  EXPECT_TRUE(run_until_changed(*program, kWaiting, seconds(20)));
  EXPECT_EQ(engine_of_exp(*program), "once");
  bool said = false;
  for (const auto& row : program->explain().candidates) {
    said = said || row.note.find("never in order") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

TEST(MeasuringBesideRuns, TrainingAndAcceleratorsAreNotMeasuredUnasked) {
  sleepy("train_a", {});
  sleepy("train_b", {});
  const auto program = Program::compile(
      small_graph("train"), {.engines = {"auto", "train_a", "train_b"}, .training = true});
  EXPECT_EQ(program->explain().placement, "estimated");
}

TEST(MeasuringBesideRuns, TheDiskCacheForgetsAnEstimatedPlan) {
  if (!testing::is_there("xla")) GTEST_SKIP() << "xla is not built";
  const auto folder =
      std::filesystem::temp_directory_path() / ("xrt_refiner_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  export_onnx_file(small_graph("disk"), folder / "m.onnx");
  const ProgramOptions options = {.engines = {"auto", "native", "xla"},
                                  .cache_dir = folder / "cache"};
  const auto load = [&] {
    forget_profiles();  // as another process would
    return Program::load(folder / "m.onnx", options);
  };
  EXPECT_EQ(load()->explain().placement, kWaiting);
  {
    const auto program = load();
    EXPECT_TRUE(program->explain().launches.at(0).from_cache) << "the estimated plan was kept";
    EXPECT_EQ(program->explain().placement, kWaiting);
    EXPECT_TRUE(run_until_changed(*program, kWaiting, seconds(60)));
  }
  EXPECT_EQ(load()->explain().placement, "measured earlier") << "by the profile";
  EXPECT_EQ(load()->explain().placement, "measured earlier") << "by the plan";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace xrt
