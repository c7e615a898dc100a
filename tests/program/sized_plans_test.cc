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
    ranges = options.ranges;
    if (is_open && fails_open_) throw Error(ErrorCode::kEngine, "sizes are wanted");
    return PickyEngine::compile(function, options);
  }

  mutable std::vector<SizeRange> ranges;  // of the last compilation

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

TEST(SizedPlans, RangesAreBuiltForAtLoading) {
  const auto engine = sized("sized_ranged", Shapes::kAny);
  const auto program = Program::compile(
      doubled(), {.engines = {"sized_ranged"}, .ranges = {{"rows", "1:8:64"}, {"columns", "5:9"}}});
  EXPECT_EQ(engine->compiled, 1);
  ASSERT_EQ(engine->ranges.size(), 2U);
  EXPECT_EQ(engine->ranges[0].symbol, "columns");
  EXPECT_EQ(engine->ranges[1].symbol, "rows");
  EXPECT_EQ(engine->ranges[1].least, 1);
  EXPECT_EQ(engine->ranges[1].usual, 8);
  EXPECT_EQ(engine->ranges[1].most, 64);
  for (std::int64_t rows = 1; rows <= 64; ++rows) run(*program, rows, 5 + rows % 5);
  EXPECT_EQ(engine->compiled, 1);
  EXPECT_EQ(program->explain().notes.at(0),
            "this plan serves a range of sizes, columns from 5 to 9, rows from 1 to 64: x "
            "float32[rows,columns]");
}

TEST(SizedPlans, ASizeOutsideOfARangeMakesItLarger) {
  const auto engine = sized("sized_growing", Shapes::kAny);
  const auto program =
      Program::compile(doubled(), {.engines = {"sized_growing"}, .ranges = {{"rows", "4:8"}}});
  for (std::int64_t rows = 9; rows <= 16; ++rows) run(*program, rows, 5);
  EXPECT_EQ(engine->compiled, 2);
  ASSERT_EQ(engine->ranges.size(), 1U);
  EXPECT_EQ(engine->ranges[0].least, 4);
  EXPECT_EQ(engine->ranges[0].most, 16);
  run(*program, 3, 5);
  run(*program, 1, 5);
  EXPECT_EQ(engine->compiled, 3);
  run(*program, 0, 5);  // in no range: by itself
  EXPECT_EQ(engine->compiled, 4);
  run(*program, 16, 5);
  EXPECT_EQ(engine->compiled, 4);
}

TEST(SizedPlans, MaxBatchSizeIsARangeOfFirstDimensions) {
  const auto engine = sized("sized_batch", Shapes::kAny);
  const auto program =
      Program::compile(doubled(), {.engines = {"sized_batch"}, .max_batch_size = 32});
  EXPECT_EQ(engine->compiled, 1);
  ASSERT_EQ(engine->ranges.size(), 1U);
  EXPECT_EQ(engine->ranges[0].symbol, "rows");
  EXPECT_EQ(engine->ranges[0].most, 32);
}

TEST(SizedPlans, ARangeOfUnnamedDimensions) {
  Graph g("unnamed");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim(), Dim(5)}));
  g.add_output(g.add_op("Add", {x, x}, {}, "y"));
  const auto engine = sized("sized_unnamed", Shapes::kAny);
  const auto program =
      Program::compile(std::move(g), {.engines = {"sized_unnamed"}, .ranges = {{"x[0]", "1:64"}}});
  ASSERT_EQ(engine->ranges.size(), 1U);
  EXPECT_EQ(engine->ranges[0].most, 64);
  for (const std::int64_t rows : {1, 2, 64}) run(*program, rows, 5);
  EXPECT_EQ(engine->compiled, 1);
}

TEST(SizedPlans, EnginesOfFixedSizesGetBuckets) {
  const auto engine = sized("sized_buckets", Shapes::kStatic);
  const auto program = Program::compile(
      doubled(),
      {.engines = {"sized_buckets"}, .shapes = {{"x", "rows,5"}}, .ranges = {{"rows", "1:8:64"}}});
  EXPECT_EQ(engine->compiled, 1);  // of the usual size
  for (std::int64_t rows = 1; rows <= 64; ++rows) run(*program, rows, 5);
  EXPECT_EQ(engine->compiled, 7);  // 1, 2, 4, … 64
  run(*program, 63, 5);
  EXPECT_EQ(program->explain().notes.at(0),
            "this plan serves sizes up to these, to which inputs are padded: x float32[64,5]");
  run(*program, 0, 5);
}

TEST(SizedPlans, RowsThatMixAreNotPadded) {
  Graph g("mixed");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("rows"), Dim(5)}));
  const ValueId sum = g.add_op(
      "ReduceSum", {x, g.add_constant("axes", Tensor::from_int64(std::vector<std::int64_t>{0}))});
  g.add_output(g.add_op("Add", {sum, sum}, {}, "y"));
  const auto engine = sized("sized_mixed", Shapes::kStatic);
  const auto program =
      Program::compile(std::move(g), {.engines = {"sized_mixed"}, .ranges = {{"rows", "1:64"}}});
  for (const std::int64_t rows : {3, 5}) {
    Tensor ones = Tensor::allocate(DType::kFloat32, {rows, 5});
    for (std::int64_t i = 0; i < ones.count(); ++i) ones.data<float>()[i] = 1;
    const std::vector<Data> outputs = program->run({{"x", ones}});
    EXPECT_EQ(outputs.at(0).tensor().data<float>()[0], static_cast<float>(2 * rows));
  }
}

TEST(SizedPlans, PaddedOutputsLieWhereTheCallerWants) {
  sized("sized_in_place", Shapes::kStatic);
  const auto program = Program::compile(
      doubled(),
      {.engines = {"sized_in_place"}, .shapes = {{"x", "rows,2"}}, .ranges = {{"rows", "1:8"}}});
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<Data> inputs{
      Tensor::from<float>(DType::kFloat32, {3, 2}, std::span<const float>(values))};
  Tensor y = Tensor::allocate(DType::kFloat32, {3, 2});
  std::vector<Data> outputs{y};
  program->run(inputs, outputs);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(y.data<float>()[i], 2 * values[i]);
  std::vector<Data> wrong{Tensor::allocate(DType::kFloat32, {4, 2})};
  EXPECT_THROW(program->run(inputs, wrong), Error);
}

TEST(SizedPlans, WhatContradictsTheModelIsRefusedAtLoading) {
  const auto refusal = [](ProgramOptions options) -> std::string {
    options.engines = {"native"};
    Graph g("declared");
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("rows"), Dim(5)}));
    const ValueId z = g.add_input("z", Type::tensor(DType::kFloat32, Shape{Dim("rows"), Dim(5)}));
    g.add_output(g.add_op("Add", {x, z}, {}, "y"));
    try {
      Program::compile(std::move(g), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.shapes = {{"x", "n,5"}}, .ranges = {{"n", "1:8"}}}), "");
  EXPECT_EQ(refusal({.shapes = {{"w", "n,5"}}}),
            "shapes: the model has no input 'w'; did you mean 'x'?");
  EXPECT_EQ(refusal({.shapes = {{"x", "n"}}}),
            "shapes: input 'x' (float32[rows,5]) has 2 dimensions, 'n' has 1");
  EXPECT_EQ(refusal({.shapes = {{"x", "n,6"}}}),
            "shapes: input 'x' (float32[rows,5]): dimension 1 is 5 in the model and cannot be 6");
  EXPECT_EQ(refusal({.shapes = {{"x", "n,m"}}}),
            "shapes: input 'x' (float32[rows,5]): dimension 1 is 5 in the model and cannot be "
            "named 'm'");
  EXPECT_EQ(refusal({.shapes = {{"x", "4,5"}, {"z", "3,5"}}}),
            "shapes: the dimension 'rows' of the model is both '4' and '3'");
  EXPECT_EQ(refusal({.ranges = {{"row", "1:8"}}}),
            "ranges: the inputs have no open dimension 'row'; did you mean 'rows'?");
  EXPECT_EQ(refusal({.shapes = {{"x", "4,5"}}, .ranges = {{"rows", "1:8"}}}),
            "ranges: the inputs have no open dimension 'rows'; all their sizes are fixed");
  EXPECT_NE(refusal({.ranges = {{"rows", "8:1"}}}).find("'rows' is '8:1'"), std::string::npos);
  EXPECT_NE(refusal({.ranges = {{"rows", "0:1"}}}).find("'rows' is '0:1'"), std::string::npos);
}

TEST(SizedPlans, ShapesFixAndNameDimensions) {
  const auto program =
      Program::compile(doubled(), {.engines = {"native"}, .shapes = {{"x", "batch,5"}}});
  EXPECT_EQ(to_string(program->inputs()[0].type), "float32[batch,5]");
  EXPECT_EQ(to_string(program->outputs()[0].type), "float32[batch,5]");
  run(*program, 3, 5);
  EXPECT_THROW(program->run({{"x", Tensor::allocate(DType::kFloat32, {3, 6})}}), Error);
  const auto fixed = Program::compile(
      doubled(), {.engines = {"native"}, .ranges = {{"rows", "4"}, {"columns", "3:3:3"}}});
  EXPECT_EQ(to_string(fixed->inputs()[0].type), "float32[4,3]");
}

TEST(SizedPlans, ARangeIsFoundInTheDiskCache) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "xrt_ranged_plans";
  std::filesystem::remove_all(folder);
  const auto engine = sized("sized_ranged_kept", Shapes::kAny);
  for (int round = 0; round < 2; ++round) {
    const auto program =
        Program::compile(doubled(), {.engines = {"sized_ranged_kept"},
                                     .cache_dir = folder,
                                     .ranges = {{"rows", "1:64"}, {"columns", "5:9"}}});
    run(*program, 7, 5);
  }
  EXPECT_EQ(engine->compiled, 1);
  EXPECT_EQ(engine->loaded, 1);
  Program::compile(
      doubled(),
      {.engines = {"sized_ranged_kept"}, .cache_dir = folder, .ranges = {{"rows", "1:32"}}});
  EXPECT_EQ(engine->compiled, 2);  // built for another range
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace xrt
