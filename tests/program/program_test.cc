// SPDX-License-Identifier: Apache-2.0
#include "xrt/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/test_engines.h"

namespace xrt {
namespace {

using testing::picky;

Tensor floats(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from<float>(DType::kFloat32, {n}, std::span<const float>(values));
}

std::vector<float> values_of(const Data& data) {
  const Tensor& t = data.tensor();
  return {t.data<float>(), t.data<float>() + t.count()};
}

// y = exp(relu(x)) + |x|, with the shape [N].
Graph small_graph(Dim dim) {
  Graph g("small");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{std::move(dim)}));
  const ValueId r = g.add_op("Relu", {x});
  const ValueId e = g.add_op("Exp", {r});
  const ValueId a = g.add_op("Abs", {x});
  g.add_output(g.add_op("Add", {e, a}, {}, "y"));
  return g;
}

float expected(float x) { return std::exp(std::max(x, 0.0F)) + std::fabs(x); }

void expect_small(const std::vector<float>& x, const Data& y) {
  const std::vector<float> got = values_of(y);
  ASSERT_EQ(got.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(got[i], expected(x[i]), 1e-5F);
}

TEST(Program, RunsNatively) {
  const auto program = Program::compile(small_graph(3), {.engines = {"native"}});
  const std::vector<float> x = {-1, 0.5F, 2};
  expect_small(x, program->run({{"x", floats(x)}}).at(0));
  EXPECT_EQ(program->explain().nodes_per_engine.at("native"), 4U);
}

TEST(Program, ThreeEnginesOnOneGraphWithEdgesBetweenThem) {
  picky("three_a", {"Relu", "Add"});
  picky("three_b", {"Exp"});
  const auto program =
      Program::compile(small_graph(3), {.engines = {"three_a", "three_b", "native"}});
  const std::vector<float> x = {-1, 0.5F, 2};
  for (int round = 0; round < 3; ++round) {
    expect_small(x, program->run({{"x", floats(x)}}).at(0));
  }
  const Explanation e = program->explain();
  EXPECT_EQ(e.nodes_per_engine.at("three_a"), 2U);
  EXPECT_EQ(e.nodes_per_engine.at("three_b"), 1U);
  EXPECT_EQ(e.nodes_per_engine.at("native"), 1U);
  EXPECT_GT(e.arena_bytes, 0U);
  for (const auto& row : e.launches) EXPECT_EQ(row.runs, 3);
  for (const auto& row : e.nodes) {
    if (row.op != "Abs") continue;
    EXPECT_EQ(row.refusals.at("three_a"), "three_a does not take Abs");
  }
}

TEST(Program, SpecialisesPerShapeAndKeepsTheNewest) {
  const auto program =
      Program::compile(small_graph(Dim("N")), {.engines = {"native"}, .max_specializations = 2});
  for (const int n : {1, 4, 7, 1, 4}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i) - 1.5F;
    expect_small(x, program->run({{"x", floats(x)}}).at(0));
  }
}

TEST(Program, ManyThreadsRunOneProgram) {
  const auto program = Program::compile(small_graph(Dim("N")), {.engines = {"native"}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&program, t] {
      for (int round = 0; round < 50; ++round) {
        std::vector<float> x(static_cast<std::size_t>(1 + (t + round) % 3),
                             static_cast<float>(t) - 3.0F);
        expect_small(x, program->run({{"x", floats(x)}}).at(0));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Program, WritesIntoTheCallersOutput) {
  const auto program = Program::compile(small_graph(2), {.engines = {"native"}});
  const std::vector<Data> inputs = {floats({1, -1})};
  std::vector<Data> outputs = {floats({0, 0})};
  const void* memory = std::as_const(outputs[0]).tensor().raw();
  program->run(inputs, outputs);
  EXPECT_EQ(std::as_const(outputs[0]).tensor().raw(), memory);
  expect_small({1, -1}, outputs[0]);
  std::vector<Data> wrong = {floats({0, 0, 0})};
  EXPECT_THROW(program->run(inputs, wrong), Error);
}

TEST(Program, OutputsThatAreInputsOrConstantsAreCopies) {
  Graph g("pass");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  g.add_output(x);
  g.add_output(g.add_constant("c", floats({5, 6})));
  const auto program = Program::compile(std::move(g), {.engines = {"native"}});
  const Tensor input = floats({1, 2});
  const std::vector<Data> out = program->run({{"x", input}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{1, 2}));
  EXPECT_NE(out[0].tensor().raw(), input.raw());
  EXPECT_EQ(values_of(out[1]), (std::vector<float>{5, 6}));
}

// w' = w - g in one launch, y = w' * 2 in another: the weight is updated in the caller's memory.
TEST(Program, AnAliasedWeightIsUpdatedInPlaceAcrossLaunches) {
  picky("updater", {"Sub"});
  Graph g("step");
  const ValueId w = g.add_input("w", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId grad = g.add_input("g", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId updated = g.add_op("Sub", {w, grad}, {}, "w_new");
  g.add_output(updated);
  g.add_output(g.add_op("Add", {updated, w}, {}, "y"));  // reads the old weight as well
  const auto program = Program::compile(
      std::move(g), {.engines = {"updater", "native"}, .aliases = {{"w", "w_new"}}});
  const Tensor weight = floats({10, 20});
  for (int step = 1; step <= 3; ++step) {
    const auto out = program->run({{"w", weight}, {"g", floats({1, 2})}});
    const auto s = static_cast<float>(step);
    EXPECT_EQ(values_of(Data(weight)), (std::vector<float>{10 - s, 20 - 2 * s}));
    EXPECT_EQ(out[0].tensor().raw(), weight.raw());
    EXPECT_EQ(values_of(out[1]), (std::vector<float>{21 - 2 * s, 42 - 4 * s}));
  }
}

template <typename Call>
void expect_error(Call&& call, ErrorCode code, const std::vector<std::string>& words) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), code) << text;
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
    }
  }
}

TEST(Program, WrongInputsAreNamed) {
  const auto program = Program::compile(small_graph(Dim("N")), {.engines = {"native"}});
  using enum ErrorCode;
  expect_error([&] { program->run({{"z", floats({1})}}); }, kInvalidArgument, {"'z'", "x"});
  expect_error([&] { program->run(std::map<std::string, Data>{}); }, kInvalidArgument, {"'x'"});
  expect_error(
      [&] {
        program->run({{"x", Tensor::scalar(1.0F)}});
      },
      kInvalidArgument, {"'x'", "[]"});
  expect_error(
      [&] {
        program->run({{"x", Tensor::from_int64(std::vector<std::int64_t>{1})}});
      },
      kInvalidArgument, {"'x'", "int64"});
  expect_error(
      [&] {
        program->run({{"x", Data::sequence(DType::kFloat32, {})}});
      },
      kInvalidArgument, {"'x'", "sequence"});
}

TEST(Program, TwoSizesOfOneSymbolAreAnError) {
  Graph g("two");
  const ValueId a = g.add_input("a", Type::tensor(DType::kFloat32, Shape{Dim("N")}));
  const ValueId b = g.add_input("b", Type::tensor(DType::kFloat32, Shape{Dim("N")}));
  g.add_output(g.add_op("Add", {a, b}));
  const auto program = Program::compile(std::move(g), {.engines = {"native"}});
  expect_error(
      [&] {
        program->run({{"a", floats({1, 2})}, {"b", floats({1, 2, 3})}});
      },
      ErrorCode::kInvalidArgument, {"'b'", "'N'", "[3]"});
}

TEST(Program, NothingFallsBackUnlessAllowed) {
  picky("only_relu", {"Relu"});
  using enum ErrorCode;
  expect_error([] { Program::compile(small_graph(2), {.engines = {"only_relu"}, .strict = true}); },
               kUnsupported, {"only_relu does not take"});
  const auto program = Program::compile(small_graph(2), {.engines = {"only_relu"}});
  EXPECT_FALSE(program->explain().notes.empty());
  expect_error([] { Program::compile(small_graph(2), {.engines = {"no_such_engine"}}); }, kNotFound,
               {"no_such_engine", "native"});
  expect_error(
      [] {
        Program::compile(small_graph(2), {.engines = {"native", "native"}});
      },
      kInvalidArgument, {"twice"});
  expect_error([] { Program::compile(small_graph(2), {.engines = {}}); }, kInvalidArgument, {});
}

TEST(Program, EventsAreKeptWhileProfiling) {
  const auto program = Program::compile(small_graph(2), {.engines = {"native"}});
  program->run({{"x", floats({1, 2})}});
  EXPECT_TRUE(program->profile().empty());
  program->enable_profile(true);
  program->run({{"x", floats({1, 2})}});
  ASSERT_EQ(program->profile().size(), 1U);
  EXPECT_EQ(program->profile()[0].engine, "native");
  EXPECT_EQ(program->take_profile().size(), 1U);
  EXPECT_TRUE(program->profile().empty());
  EXPECT_NE(program->trace_json().find("traceEvents"), std::string::npos);
}

TEST(Doctor, RunsAnOpOnTheNativeEngine) {
  for (const EngineReport& report : probe_engines()) {
    if (report.name != "native") continue;
    EXPECT_TRUE(report.available) << report.error;
  }
}

TEST(Registry, DuplicatesAreErrors) {
  picky("registered_once", {"Relu"});
  EXPECT_THROW(picky("registered_once", {"Relu"}), Error);
  EXPECT_THROW(picky("auto", {"Relu"}), Error);
}

}  // namespace
}  // namespace xrt
