// SPDX-License-Identifier: Apache-2.0
// Placement by estimates and by measuring, with engines whose speed is known: they sleep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/interrupt.h"
#include "measure/contention.h"
#include "measure/profile_cache.h"
#include "tests/support/sleepy_engine.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

using testing::sleepy;
using testing::SleepyEngine;

// Engines that sleep take as long on a busy machine.
const bool kDisregard = Contention::disregarded = true;
// Nothing is read from the user's folder, or written there.
const bool kNoCache = ::setenv("XRT_CACHE_DIR", "", 1) == 0;

// x → Relu → Exp → Abs → Neg, with a side branch around the two in the middle where `branch`.
Graph chain(bool branch = false) {
  Graph g("chain");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  const ValueId relu = g.add_op("Relu", {x});
  const ValueId exp = g.add_op("Exp", {relu});
  const ValueId abs = g.add_op("Abs", {exp});
  const ValueId last = branch ? g.add_op("Add", {abs, relu}) : g.add_op("Neg", {abs});
  g.add_output(last);
  return g;
}

std::map<std::string, std::string> engines_by_op(Program& program) {
  std::map<std::string, std::string> engines;
  for (const auto& row : program.explain().nodes) engines[row.op] = row.engine;
  return engines;
}

void expect_right(Program& program) {
  const std::vector<float> x = {-1, 0, 0.5F, 2};
  const Tensor input = Tensor::from<float>(DType::kFloat32, {4}, std::span<const float>(x));
  const std::vector<Data> y = program.run({{"x", input}});
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(y.at(0).tensor().data<float>()[i], -std::exp(std::max(x[i], 0.0F)), 1e-5F);
  }
}

TEST(Auto, WhatWasMeasuredIsNotMeasuredAgain) {
  const auto a = sleepy("once_a", {{"Exp", 2000}});
  const auto b = sleepy("once_b", {{"Exp", 200}});
  const ProgramOptions options = {.engines = {"auto", "once_a", "once_b"}, .auto_mode = "full"};
  { const auto first = Program::compile(chain(), options); }
  const int compiled_a = a->compiled;
  const int compiled_b = b->compiled;
  EXPECT_GT(compiled_a, 0);
  const auto second = Program::compile(chain(), options);
  EXPECT_EQ(a->compiled, compiled_a);
  EXPECT_EQ(b->compiled, compiled_b + 1) << "the plan itself, nothing to measure with";
  EXPECT_EQ(second->explain().placement, "measured earlier");
  EXPECT_EQ(engines_by_op(*second).at("Exp"), "once_b");
  // "fast" uses what is known.
  ProgramOptions fast = options;
  fast.auto_mode = "fast";
  EXPECT_EQ(engines_by_op(*Program::compile(chain(), fast)).at("Exp"), "once_b");
  // Another version of an engine: measured anew.
  b->set_version("2");
  EXPECT_EQ(Program::compile(chain(), options)->explain().placement, "measured");
}

TEST(Auto, WhatWasMeasuredIsKeptOnDisk) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("xrt_profile_test_" + std::to_string(::getpid()));
  const ProgramOptions options = {
      .engines = {"auto", "native", "xla"}, .cache_dir = folder, .auto_mode = "full"};
  const Graph graph = chain();
  const std::string key = profile_key(graph, options);
  EXPECT_FALSE(find_profile(key, options));
  Decision decision;
  decision.engines = {"native"};
  decision.precision = Precision::kBF16;
  decision.placement = kMeasured;
  decision.candidates.emplace_back().measured_us = 12.5;
  keep_profile(key, options, decision);
  forget_profiles();  // as another process would
  const auto found = find_profile(key, options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->engines, decision.engines);
  EXPECT_EQ(found->precision, Precision::kBF16);
  EXPECT_EQ(found->placement, kMeasuredEarlier);
  ASSERT_EQ(found->candidates.size(), 1U);
  EXPECT_EQ(found->candidates[0].measured_us, 12.5);
  // A damaged entry is as good as none.
  const auto file = folder / (key + ".xrtc");
  ASSERT_TRUE(std::filesystem::exists(file));
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomic(file, bytes);
  forget_profiles();
  EXPECT_FALSE(find_profile(key, options));
  // Other shapes, threads and choices have other keys.
  ProgramOptions other = options;
  other.num_threads = 1;
  EXPECT_NE(profile_key(graph, other), key);
  other = options;
  other.engines = {"auto", "native"};
  EXPECT_NE(profile_key(graph, other), key);
  EXPECT_NE(profile_key(chain(true), options), key);
  std::filesystem::remove_all(folder);
}

TEST(Auto, ADecisionForAnUnknownPrecisionIsNone) {
  Decision decision;
  decision.precision = Precision::kBF16;
  std::string text = to_json(decision);
  ASSERT_TRUE(decision_from_json(text));
  EXPECT_EQ(decision_from_json(text)->precision, Precision::kBF16);
  text.replace(text.find("bf16"), 4, "bf61");
  EXPECT_FALSE(decision_from_json(text));
}

TEST(Auto, AnEngineThatFailsIsNoCandidate) {
  class Broken : public testing::PickyEngine {
   public:
    Broken() : PickyEngine("broken", {}) {}
    Support supports(const SupportQuery&) const override { return Support::yes(); }
    std::shared_ptr<const Executable> compile(const Function&,
                                              const CompileOptions&) const override {
      throw Error(ErrorCode::kEngine, "out of order");
    }
  };
  register_engine(std::make_shared<Broken>());
  const auto program =
      Program::compile(chain(), {.engines = {"auto", "broken", "native"}, .auto_mode = "full"});
  expect_right(*program);
  bool said = false;
  for (const auto& row : program->explain().candidates) {
    said = said || row.note.find("out of order") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

TEST(Auto, AnEngineThatComputesSomethingElseIsNoCandidate) {
  class Wrong : public SleepyEngine {
   public:
    Wrong() : SleepyEngine("wrong", {}, 0) {}
    std::shared_ptr<const Executable> compile(const Function&,
                                              const CompileOptions&) const override {
      return std::make_shared<Constant>();
    }
    class Constant : public Executable {
     public:
      void run(const RunArgs& args) const override {
        for (Data& data : data_of(args).outputs) {
          Tensor& t = data.tensor();
          for (std::int64_t i = 0; i < t.count(); ++i) t.data<float>()[i] = 1e6F;
        }
      }
    };
  };
  register_engine(std::make_shared<Wrong>());
  sleepy("slow_but_right", {}, 2000);
  const auto program = Program::compile(
      chain(), {.engines = {"auto", "slow_but_right", "wrong"}, .auto_mode = "full"});
  EXPECT_EQ(engines_by_op(*program).at("Exp"), "slow_but_right");
  expect_right(*program);
}

TEST(Auto, SymbolicShapesAreMeasuredOnTheFirstRun) {
  sleepy("sym_a", {{"Exp", 3000}});
  sleepy("sym_b", {{"Exp", 100}});
  Graph g("symbolic");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N")}));
  g.add_output(g.add_op("Exp", {g.add_op("Relu", {x})}));
  const auto program =
      Program::compile(std::move(g), {.engines = {"auto", "sym_a", "sym_b"}, .auto_mode = "full"});
  program->run({{"x", Tensor::scalar(1.0F).reshaped({1})}});
  EXPECT_EQ(program->explain().placement, "measured");
  EXPECT_EQ(engines_by_op(*program).at("Exp"), "sym_b");
}

// y = x·w of 64 columns each.
Graph product() {
  std::mt19937 rng(5);
  Tensor w = Tensor::allocate(DType::kFloat32, {64, 64});
  for (std::int64_t i = 0; i < w.count(); ++i) {
    w.data<float>()[i] = static_cast<float>(rng() % 2000) / 1000.0F - 1.0F;
  }
  Graph g("product");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{64, 64}));
  g.add_output(g.add_op("MatMul", {x, g.add_constant("w", w)}, {}, "y"));
  return g;
}

TEST(AutoPrecision, StaysWithinTheTolerance) {
  for (const double tolerance : {0.0, 1.0}) {
    const auto program = Program::compile(
        product(), {.engines = {"native"}, .precision = std::nullopt, .tolerance = tolerance});
    const Explanation e = program->explain();
    ASSERT_FALSE(e.candidates.empty());
    EXPECT_EQ(e.placement, "measured");
    EXPECT_EQ(e.candidates[0].precision, e.precision);
    // At 0 that is float32, or what gives the same bits.
    EXPECT_LE(e.candidates[0].error, tolerance);
    for (const auto& row : e.candidates) {
      if (row.precision == Precision::kF32 || row.error < 0) continue;
      // oneDNN may round factors to bfloat16, and does where that is faster: not on every CPU.
      EXPECT_LT(row.error, 0.02);
    }
  }
}

TEST(AutoPrecision, IsNeverLoweredUnasked) {
  const auto program = Program::compile(product(), {.engines = {"auto"}, .auto_mode = "full"});
  for (const auto& row : program->explain().candidates) EXPECT_EQ(row.precision, Precision::kF32);
  EXPECT_EQ(program->explain().precision, Precision::kF32);
}

TEST(AutoPrecision, AnExplicitOneIsHandedToTheEngine) {
  const Graph graph = product();
  const auto run = [&](Precision precision) {
    const auto program = Program::compile(graph, {.engines = {"native"}, .precision = precision});
    EXPECT_EQ(program->explain().precision, precision);
    Tensor x = Tensor::allocate(DType::kFloat32, {64, 64});
    for (std::int64_t i = 0; i < x.count(); ++i) {
      x.data<float>()[i] = std::sin(static_cast<float>(i));
    }
    return program->run({{"x", x}}).at(0).tensor();
  };
  const Tensor exact = run(Precision::kF32);
  const Tensor rounded = run(Precision::kBF16);
  for (std::int64_t i = 0; i < exact.count(); ++i) {
    ASSERT_NEAR(rounded.data<float>()[i], exact.data<float>()[i], 0.2F);
  }
  // What an engine does not understand is an error, also where the user wrote it himself.
  EXPECT_THROW(Program::compile(graph, {.engines = {"native"},
                                        .engine_options = {{"native", {{"precision", "f8"}}}}}),
               Error);
}

// Eight convolutions of 16 channels; as int8 between QuantizeLinear and DequantizeLinear.
Graph convolutions(bool quantised) {
  Graph g("convolutions");
  const Type type = Type::tensor(DType::kFloat32, Dims{1, 16, 32, 32});
  ValueId x = g.add_input("x", type);
  const ValueId scale = g.add_constant("scale", Tensor::scalar(0.05F));
  const std::uint8_t middle = 128;
  const ValueId zero =
      g.add_constant("zero", Tensor::from<std::uint8_t>(DType::kUInt8, {}, std::span(&middle, 1)));
  Tensor w = Tensor::allocate(DType::kFloat32, {16, 16, 3, 3});
  for (std::int64_t i = 0; i < w.count(); ++i) w.data<float>()[i] = 0.01F;
  const ValueId weights = g.add_constant("w", w);
  Tensor q = Tensor::allocate(DType::kInt8, {16, 16, 3, 3});
  for (std::int64_t i = 0; i < q.count(); ++i) q.data<std::int8_t>()[i] = 3;
  const ValueId bytes = g.add_constant("q", q);
  for (int i = 0; i < 8; ++i) {
    ValueId factors = weights;
    if (quantised) {
      x = g.add_op("QuantizeLinear", {x, scale, zero});
      x = g.add_op("DequantizeLinear", {x, scale, zero});
      factors = g.add_op("DequantizeLinear", {bytes, scale});
    }
    x = g.add_op("Conv", {x, factors}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  }
  g.add_output(x);
  return g;
}

TEST(AutoFast, GoesByTheKindOfWork) {
  const Explanation plain = Program::compile(convolutions(false), {.auto_mode = "fast"})->explain();
  EXPECT_EQ(plain.placement, "estimated");
  ASSERT_FALSE(plain.candidates.empty());
  EXPECT_EQ(plain.nodes_per_engine.at("native"), 8U);
  EXPECT_EQ(plain.candidates[0].plan, "native");
  double last = 0;
  for (const auto& row : plain.candidates) {
    EXPECT_EQ(row.measured_us, 0);
    if (row.plan == "xla,native" && testing::is_there("xla")) {
      EXPECT_EQ(row.note, "not loaded: estimated slower");
      EXPECT_GT(row.estimated_us, plain.candidates[0].estimated_us);
    }
    if (row.note.empty()) {
      EXPECT_GE(row.estimated_us, last);
      last = row.estimated_us;
    }
  }
  if (!testing::is_there("openvino")) GTEST_SKIP() << "the rest is about OpenVINO's int8";
  const Explanation quantised =
      Program::compile(convolutions(true), {.auto_mode = "fast"})->explain();
  bool native = false;  // it computes in float32 where the CPU has no VNNI
#if defined(__x86_64__)
  __builtin_cpu_init();
  native = __builtin_cpu_supports("avx512vnni");
#endif
  EXPECT_EQ(quantised.candidates[0].plan, native ? "native" : "openvino,native");
}

TEST(AutoFast, StrictLeavesNobodyElse) {
  testing::picky("strict_part", {"Exp"});
  sleepy("strict_all", {});
  const auto program =
      Program::compile(chain(), {.engines = {"auto", "strict_part", "strict_all"}, .strict = true});
  EXPECT_EQ(program->explain().nodes_per_engine.at("strict_all"), 4U);
  for (const char* mode : {"fast", "full"}) {
    try {
      Program::compile(chain(),
                       {.engines = {"auto", "strict_part"}, .strict = true, .auto_mode = mode});
      ADD_FAILURE() << mode;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("it takes 1 of 4 nodes"), std::string::npos);
    }
  }
}

TEST(AutoPrecision, AnEngineWithoutItIsNamed) {
  testing::picky("only_f32", {"Exp"});  // no products, thus none in bfloat16
  const auto program =
      Program::compile(chain(), {.engines = {"only_f32"}, .precision = Precision::kBF16});
  EXPECT_THAT(program->explain().notes,
              ::testing::Contains("engine 'only_f32' computes in float32: it has no bf16"));
}

TEST(AutoFast, NodesThatTheUserPlacedBringTheirEngine) {
  testing::picky("fast_own", {"Exp"});
  Graph g = chain();
  const std::string node = g.node(g.nodes()[1]).name;
  const auto program = Program::compile(g, {.node_engines = {{node, "fast_own"}}});
  EXPECT_EQ(engines_by_op(*program).at("Exp"), "fast_own");
  EXPECT_EQ(engines_by_op(*program).at("Abs"), "native");
}

TEST(Auto, ASecondStartTakesThePlanFromDisk) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("xrt_auto_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  export_onnx_file(product(), folder / "m.onnx");
  ProgramOptions options = {.engines = {"auto", "native"}, .cache_dir = folder / "cache"};
  const auto placement = [&](const char* mode) {
    options.auto_mode = mode;
    forget_profiles();  // as another process would
    return Program::load(folder / "m.onnx", options)->explain().placement;
  };
  EXPECT_EQ(placement("fast"), "estimated");
  EXPECT_EQ(placement("fast"), "estimated");
  EXPECT_EQ(placement("full"), "measured") << "an estimate will not do";
  EXPECT_EQ(placement("full"), "measured earlier");
  EXPECT_EQ(placement("fast"), "measured earlier");
  EXPECT_EQ(placement("background"), "measured earlier") << "from the profile";
  std::filesystem::remove_all(folder);
}

TEST(Auto, WaitingForAnotherMeasurementEndsByCtrlC) {
  // Does not return from compile() until it is released, or after ten seconds.
  class Held : public SleepyEngine {
   public:
    Held() : SleepyEngine("held", {}, 0) {}
    std::shared_ptr<const Executable> compile(const Function& function,
                                              const CompileOptions& options) const override {
      began = true;
      began.notify_all();
      for (int i = 0; i < 1000 && !released; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return SleepyEngine::compile(function, options);
    }
    mutable std::atomic<bool> began = false;
    std::atomic<bool> released = false;
  };
  const auto held = std::make_shared<Held>();
  register_engine(held);
  std::thread other(
      [] { Program::compile(chain(), {.engines = {"held"}, .precision = std::nullopt}); });
  held->began.wait(false);
  set_interrupt_check([] { return true; });
  try {
    Program::compile(chain(true), {.engines = {"native"}, .precision = std::nullopt});
    ADD_FAILURE() << "not interrupted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "interrupted");
  }
  set_interrupt_check(nullptr);
  EXPECT_EQ(held->compiled, 0) << "the other measurement was waited for";
  held->released = true;
  other.join();
}

TEST(Auto, OneBudgetForAllShapes) {
  const auto a = sleepy("shapes_a", {{"Exp", 3000}});
  const auto b = sleepy("shapes_b", {{"Exp", 100}});
  Graph g("shapes");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N")}));
  g.add_output(g.add_op("Exp", {g.add_op("Relu", {x})}));
  const auto program = Program::compile(
      std::move(g),
      {.engines = {"auto", "shapes_a", "shapes_b"}, .auto_mode = "full", .auto_budget_s = 0.001});
  program->run({{"x", Tensor::allocate(DType::kFloat32, {1})}});
  EXPECT_EQ(program->explain().placement, "measured");
  const std::string first = engines_by_op(*program).at("Exp");
  const int compiled = a->compiled + b->compiled;
  program->run({{"x", Tensor::allocate(DType::kFloat32, {2})}});
  EXPECT_EQ(program->explain().placement, "measured for other shapes");
  EXPECT_EQ(engines_by_op(*program).at("Exp"), first);
  EXPECT_EQ(a->compiled + b->compiled, compiled + 1);
}

TEST(Auto, OptionsAreChecked) {
  EXPECT_THROW(Program::compile(chain(), {.auto_mode = "slow"}), Error);
  EXPECT_THROW(Program::compile(chain(), {.precision = Precision::kTF32}), Error);
  EXPECT_THROW(Program::compile(chain(), {.engines = {"native", "auto"}}), Error);
}

}  // namespace
}  // namespace xrt
