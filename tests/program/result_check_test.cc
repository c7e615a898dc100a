// SPDX-License-Identifier: Apache-2.0
// What other engines compute is compared with the native engine, behind the second run.
#include "program/result_check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "cache/distrust.h"
#include "engine/host.h"
#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

using std::chrono::milliseconds;
using testing::PickyEngine;

// Takes Relu and computes another op in its place.
class WrongEngine : public PickyEngine {
 public:
  WrongEngine(std::string name, std::string op)
      : PickyEngine(std::move(name), {"Relu"}), op_(std::move(op)) {}

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    ++compiled;
    Graph graph = graph_of(function.graph);
    const NodeId relu = graph.nodes().front();
    const Node node = graph.node(relu);
    const ValueId output = node.outputs[0];
    Graph other("other");
    const ValueId x = other.add_input("x", graph.type(node.inputs[0]));
    const ValueId y = other.add_op(op_, {x}, {}, "y");
    other.set_type(y, graph.type(output));
    other.add_output(y);
    return get_engine("native")->compile(function_of("other", other), options);
  }
  // Its code changes with its version.
  std::shared_ptr<const Executable> load(const TensorView&, const Function& function,
                                         const CompileOptions& options) const override {
    return compile(function, options);
  }

 private:
  std::string op_;
};

std::shared_ptr<WrongEngine> wrong(const std::string& name, const std::string& op) {
  auto engine = std::make_shared<WrongEngine>(name, op);
  register_engine(engine);
  return engine;
}

// x → Relu → Exp
Graph small_graph(const std::string& name, DType dtype = DType::kFloat32) {
  Graph g(name);
  const ValueId x = g.add_input("x", Type::tensor(dtype, Dims{4}));
  g.add_output(g.add_op("Exp", {g.add_op("Relu", {x}, {}, name + "_r")}, {}, name + "_y"));
  return g;
}

Tensor ramp() {
  const std::vector<float> values{-2, -1, 1, 2};
  return Tensor::from<float>(DType::kFloat32, {4}, values);
}

std::string engine_of(Program& program, const std::string& op) {
  for (const auto& row : program.explain().nodes) {
    if (row.op == op) return row.engine;
  }
  return "";
}

std::string check_notes(Program& program) {
  std::string text;
  for (const std::string& note : program.explain().notes) {
    if (note.starts_with("check_results")) text += note + "\n";
  }
  return text;
}

// The note that the check leaves behind; runs on meanwhile.
std::string note_after_runs(Program& program, int runs = 2) {
  for (int i = 0; i < runs; ++i) program.run({{"x", ramp()}});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (check_notes(program).empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  return check_notes(program);
}

float last(Program& program) {
  return program.run({{"x", ramp()}}).at(0).tensor().data<float>()[0];
}

TEST(ResultCheck, AWrongEngineIsReplacedAfterTwoRuns) {
  wrong("wrong_abs", "Abs");
  const auto program =
      Program::compile(small_graph("abs"), {.engines = {"wrong_abs"}, .cache_dir = ""});
  EXPECT_EQ(engine_of(*program, "Relu"), "wrong_abs");
  EXPECT_NEAR(last(*program), std::exp(2.0F), 1e-4F) << "the first run is the engine's";
  const std::string note = note_after_runs(*program, 1);
  EXPECT_NE(note.find("engine 'wrong_abs' computed function"), std::string::npos) << note;
  EXPECT_NE(note.find("'native'"), std::string::npos) << note;
  EXPECT_EQ(engine_of(*program, "Relu"), "native");
  EXPECT_NEAR(last(*program), 1.0F, 1e-6F);
  for (const auto& row : program->explain().nodes) {
    if (row.op != "Relu") continue;
    EXPECT_NE(row.refusals.at("wrong_abs").find("computed it wrong"), std::string::npos);
  }
}

TEST(ResultCheck, OneRunAndAProgramWithoutTheCheckDoNothing) {
  wrong("wrong_unchecked", "Abs");
  const auto once = Program::compile(small_graph("once"), {.engines = {"wrong_unchecked"}});
  once->run({{"x", ramp()}});
  const auto off = Program::compile(small_graph("off"),
                                    {.engines = {"wrong_unchecked"}, .check_results = false});
  for (int i = 0; i < 5; ++i) off->run({{"x", ramp()}});
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(check_notes(*once), "");
  EXPECT_EQ(check_notes(*off), "");
  EXPECT_EQ(engine_of(*off, "Relu"), "wrong_unchecked");
}

TEST(ResultCheck, AnEngineThatIsRightStays) {
  testing::picky("right_relu", {"Relu"});
  const auto program = Program::compile(small_graph("right"), {.engines = {"right_relu"}});
  const std::string note = note_after_runs(*program);
  EXPECT_NE(note.find("1 function agrees with 'native'"), std::string::npos) << note;
  EXPECT_EQ(engine_of(*program, "Relu"), "right_relu");
}

// x, after two rounds of Relu in a body that the runtime drives.
Graph loop_of_relus() {
  Graph g("loop");
  const Type floats = Type::tensor(DType::kFloat32, Dims{4});
  const Type flag = Type::tensor(DType::kBool, Dims{});
  const ValueId x = g.add_input("x", floats);
  const ValueId rounds = g.add_constant("rounds", Tensor::scalar(std::int64_t{2}));
  auto body = std::make_shared<Graph>("body");
  body->add_input("i", Type::tensor(DType::kInt64, Dims{}));
  const ValueId go_on = body->add_input("go_on", flag);
  const ValueId before = body->add_input("before", floats);
  body->add_output(body->add_op("Identity", {go_on}, {}, "same"));
  const ValueId positive = body->add_op("Relu", {before}, {}, "positive");
  body->add_output(
      body->add_op("Neg", {body->add_op("Neg", {positive}, {}, "minus")}, {}, "after"));
  const NodeId loop =
      g.add_node("", "Loop", {rounds, ValueId{}, x}, {"y"}, {{"body", body}}, "loop");
  g.add_output(g.node(loop).outputs[0]);
  return g;
}

TEST(ResultCheck, BodiesThatTheRuntimeDrivesAreChecked) {
  wrong("wrong_in_loop", "Abs");
  const auto program =
      Program::compile(loop_of_relus(), {.engines = {"wrong_in_loop"}, .cache_dir = ""});
  EXPECT_EQ(engine_of(*program, "Loop"), "runtime");
  EXPECT_EQ(engine_of(*program, "Relu"), "wrong_in_loop");
  EXPECT_EQ(last(*program), 2.0F) << "the first run is the engine's";
  const std::string note = note_after_runs(*program, 1);
  EXPECT_NE(note.find("engine 'wrong_in_loop' computed function 'loop/body/"), std::string::npos)
      << note;
  EXPECT_EQ(engine_of(*program, "Relu"), "native");
  EXPECT_EQ(last(*program), 0.0F);
}

TEST(ResultCheck, ABodyThatIsRightIsComparedOnce) {
  testing::picky("right_in_loop", {"Relu"});
  const auto program = Program::compile(loop_of_relus(), {.engines = {"right_in_loop"}});
  const std::string note = note_after_runs(*program);
  EXPECT_NE(note.find("1 function agrees with 'native'"), std::string::npos) << note;
}

TEST(ResultCheck, AStrictProgramStaysAndSaysSo) {
  wrong("wrong_strict", "Abs");
  Graph g("strict");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  g.add_output(g.add_op("Relu", {x}, {}, "strict_y"));
  const auto program =
      Program::compile(std::move(g), {.engines = {"wrong_strict"}, .strict = true});
  const std::string note = note_after_runs(*program);
  EXPECT_NE(note.find("wrong"), std::string::npos);
  EXPECT_EQ(engine_of(*program, "Relu"), "wrong_strict");
}

TEST(ResultCheck, WhatWasFoundHoldsForTheNextProgram) {
  const auto engine = wrong("wrong_known", "Neg");
  const ProgramOptions options{.engines = {"wrong_known"}, .cache_dir = ""};
  const auto first = Program::compile(small_graph("known"), options);
  note_after_runs(*first);
  const int compiled = engine->compiled;
  const auto second = Program::compile(small_graph("known"), options);
  EXPECT_EQ(engine_of(*second, "Relu"), "native") << "from its first run on";
  EXPECT_EQ(engine->compiled, compiled);
}

TEST(ResultCheck, WhatWasFoundIsKeptOnDisk) {
  const TemporaryFolder folder("distrust");
  keep_distrust("key", "native", "f", "it is off", folder.path());
  forget_distrust();
  EXPECT_EQ(find_distrust("key", "native", folder.path()), "it is off");
  forget_distrust();
  EXPECT_EQ(find_distrust("key", "native", {}), std::nullopt);
  EXPECT_EQ(find_distrust("another", "native", folder.path()), std::nullopt);
}

RunRecord record_of(Graph graph, const Tensor& input, const Tensor& output) {
  RunRecord record;
  record.functions.push_back({.name = "f",
                              .engine = "e",
                              .key = "k",
                              .graph = std::make_shared<Graph>(std::move(graph)),
                              .inputs = {input},
                              .outputs = {output}});
  return record;
}

Tensor four(std::vector<float> values) { return Tensor::from<float>(DType::kFloat32, {4}, values); }

Graph one_op(const std::string& op) {
  Graph g("one");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  const ValueId y = g.add_op(op, {x}, {}, "y");
  g.set_type(y, g.type(x));
  g.add_output(y);
  return g;
}

bool is_right(const std::string& op, const Tensor& input, const Tensor& output,
              Precision precision = Precision::kF32) {
  const ResultCheck check = check_results(record_of(one_op(op), input, output), precision, {});
  return check.wrong.empty() && check.right == 1;
}

TEST(ResultCheck, RoundingErrorsAreRight) {
  EXPECT_TRUE(is_right("Neg", four({1, 2, 3, 4}), four({-1, -2, -3.00001F, -4})));
  EXPECT_FALSE(is_right("Neg", four({1, 2, 3, 4}), four({-1, -2, -3.01F, -4})));
  EXPECT_TRUE(is_right("Neg", four({1, 2, 3, 4}), four({-1, -2, -3.01F, -4}), Precision::kBF16));
  EXPECT_FALSE(is_right("Neg", four({1, 2, 3, 4}), four({-1, -2, -4, -4}), Precision::kBF16));
}

TEST(ResultCheck, NoiseOfWhatCancelsOutIsRight) {
  // x - mean(x), with a mean that is off by a rounding error.
  Graph g("cancel");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  const ValueId mean = g.add_op("ReduceMean", {x}, {}, "m");
  const ValueId y = g.add_op("Sub", {x, mean}, {}, "y");
  g.set_type(y, g.type(x));
  g.add_output(y);
  const RunRecord record =
      record_of(std::move(g), four({100, 100, 100, 100}), four({1e-5F, 1e-5F, 1e-5F, -1e-5F}));
  EXPECT_TRUE(check_results(record, Precision::kF32, {}).wrong.empty());
}

TEST(ResultCheck, WhatIsNoNumberIsWrongWhereTheOtherIsOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(is_right("Neg", four({1, 2, 3, 4}), four({-1, -2, nan, -4})));
  EXPECT_TRUE(is_right("Sqrt", four({1, 4, -1, 9}), four({1, 2, 7, 3})))
      << "where the native engine has none, there is nothing to compare with";
}

TEST(ResultCheck, AStepIsJudgedByTheWhole) {
  EXPECT_TRUE(is_right("Round", four({0.5F, 100, 200, 300}), four({1, 100, 200, 300})));
  EXPECT_FALSE(is_right("Round", four({0.5F, 100, 200, 300}), four({300, 100, 0, 300})));
}

TEST(ResultCheck, TheToleranceGrowsWithDepthAndPrecision) {
  EXPECT_LT(result_tolerance(Precision::kF32, 1), 1e-3);
  EXPECT_GT(result_tolerance(Precision::kF32, 1000), result_tolerance(Precision::kF32, 10));
  EXPECT_LT(result_tolerance(Precision::kF32, 100000), result_tolerance(Precision::kBF16, 1));
  EXPECT_LE(result_tolerance(Precision::kBF16, 100000), 0.2);
}

}  // namespace
}  // namespace xrt
