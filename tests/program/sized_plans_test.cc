// SPDX-License-Identifier: Apache-2.0
#include "program/sized_plans.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

// Takes Add in functions of any size, or only where all sizes are known when it compiles.
class SizedEngine final : public testing::PickyEngine {
 public:
  SizedEngine(std::string name, Shapes shapes, bool fails_open)
      : PickyEngine(std::move(name), {"Add"}), fails_open_(fails_open) {
    info_.shapes = shapes;
  }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    const Graph& graph = graph_of(function.graph);
    const bool is_open = !graph.type(graph.inputs()[0]).is_static();
    if (is_open && fails_open_) throw Error(ErrorCode::kEngine, "sizes are wanted");
    return PickyEngine::compile(function, options);
  }

 private:
  bool fails_open_;
};

std::shared_ptr<SizedEngine> sized(const std::string& name, Shapes shapes,
                                   bool fails_open = false) {
  auto engine = std::make_shared<SizedEngine>(name, shapes, fails_open);
  register_engine(engine);
  return engine;
}

// y = x + x, float32[rows, columns].
Graph doubled() {
  Graph g("doubled");
  const ValueId x =
      g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("rows"), Dim("columns")}));
  g.add_output(g.add_op("Add", {x, x}, {}, "y"));
  return g;
}

void run(Program& program, std::int64_t rows, std::int64_t columns) {
  Tensor x = Tensor::allocate(DType::kFloat32, {rows, columns});
  for (std::int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = static_cast<float>(i);
  const std::vector<Data> outputs = program.run({{"x", x}});
  const Tensor& y = outputs.at(0).tensor();
  ASSERT_EQ(y.dims(), x.dims());
  for (std::int64_t i = 0; i < y.count(); ++i) {
    ASSERT_EQ(y.data<float>()[i], 2 * static_cast<float>(i)) << "at " << i;
  }
}

std::string input_type(Program& program) { return program.explain().nodes.at(0).input_types.at(0); }

TEST(SizedPlans, SixtySizesInTurnsAreThreeCompilations) {
  const auto engine = sized("sized_any", Shapes::kAny);
  const auto program = Program::compile(doubled(), {.engines = {"sized_any"}});
  for (int turn = 0; turn < 3; ++turn) {
    for (std::int64_t rows = 1; rows <= 60; ++rows) run(*program, rows, 5);
  }
  EXPECT_EQ(engine->compiled, static_cast<int>(SizedPlans::kFixedSets) + 1);
}

TEST(SizedPlans, OnlyDimensionsThatChangeAreOpen) {
  sized("sized_some", Shapes::kAny);
  const auto program = Program::compile(doubled(), {.engines = {"sized_some"}});
  for (const std::int64_t rows : {1, 2, 3}) run(*program, rows, 5);
  EXPECT_EQ(input_type(*program), "float32[rows,5]");
  const std::vector<std::string> notes = program->explain().notes;
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.back(), "this plan serves all sizes of its open dimensions: x float32[rows,5]");
  run(*program, 4, 6);
  EXPECT_EQ(input_type(*program), "float32[rows,columns]");
  run(*program, 4, 5);
  EXPECT_EQ(input_type(*program), "float32[rows,columns]");
  run(*program, 2, 5);  // has a plan of its own
  EXPECT_EQ(input_type(*program), "float32[2,5]");
}

TEST(SizedPlans, AnEngineThatNeedsSizesCompilesEachSet) {
  const auto engine = sized("sized_static", Shapes::kStatic);
  const auto program =
      Program::compile(doubled(), {.engines = {"sized_static"}, .max_specializations = 4});
  for (std::int64_t rows = 1; rows <= 6; ++rows) run(*program, rows, 5);
  EXPECT_EQ(engine->compiled, 6);
  EXPECT_EQ(program->explain().nodes_per_engine.at("sized_static"), 1U);
  for (const std::int64_t rows : {5, 6, 4, 3}) run(*program, rows, 5);  // are kept
  EXPECT_EQ(engine->compiled, 6);
}

TEST(SizedPlans, WhatFailsWithOpenDimensionsIsCompiledForEachSet) {
  const auto engine = sized("sized_failing", Shapes::kAny, /*fails_open=*/true);
  const auto program = Program::compile(doubled(), {.engines = {"sized_failing"}});
  for (std::int64_t rows = 1; rows <= 5; ++rows) run(*program, rows, 5);
  EXPECT_EQ(engine->compiled, 5);
  EXPECT_EQ(input_type(*program), "float32[5,5]");
  EXPECT_NE(program->explain().notes.back().find("sizes are wanted"), std::string::npos);
}

TEST(SizedPlans, AutoCompilesEachSetWhereNoCandidateTakesAnySize) {
  const auto engine = sized("sized_candidate", Shapes::kStatic);
  const auto program =
      Program::compile(doubled(), {.engines = {"auto", "sized_candidate"}, .auto_mode = "fast"});
  for (std::int64_t rows = 1; rows <= 5; ++rows) run(*program, rows, 5);
  EXPECT_EQ(engine->compiled, 5);
}

TEST(SizedPlans, AutoLeavesEnginesOfFixedSizesOutOfAnOpenPlan) {
  const auto fixed = sized("sized_first", Shapes::kStatic);
  const auto any = sized("sized_second", Shapes::kAny);
  const auto program = Program::compile(
      doubled(), {.engines = {"auto", "sized_first", "sized_second"}, .auto_mode = "fast"});
  for (std::int64_t rows = 1; rows <= 9; ++rows) run(*program, rows, 5);
  EXPECT_LE(fixed->compiled, static_cast<int>(SizedPlans::kFixedSets));
  EXPECT_EQ(any->compiled + fixed->compiled, static_cast<int>(SizedPlans::kFixedSets) + 1);
  EXPECT_EQ(program->explain().nodes_per_engine.at("sized_second"), 1U);
}

TEST(SizedPlans, ThePlanIsFoundInTheDiskCache) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "xrt_sized_plans";
  std::filesystem::remove_all(folder);
  const auto engine = sized("sized_kept", Shapes::kAny);
  for (int round = 0; round < 2; ++round) {
    const auto program =
        Program::compile(doubled(), {.engines = {"sized_kept"}, .cache_dir = folder});
    for (std::int64_t rows = 1; rows <= 5; ++rows) run(*program, rows, 5);
  }
  EXPECT_EQ(engine->compiled, 3);
  EXPECT_EQ(engine->loaded, 3);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace xrt
