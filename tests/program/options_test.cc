// SPDX-License-Identifier: Apache-2.0
// What options do to a program. Faults of engine frameworks before this one are ruled out here:
// "unlimited" that merges nothing, a forced compilation that pulls the memory from under a program,
// caches that do not look at options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;
using xrt::testing::picky;

// y = Relu(Abs(Relu(Abs(… x)))), `pairs` times.
Graph chain(int pairs) {
  Graph graph("chain");
  ValueId v = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{3}));
  for (int i = 0; i < pairs; ++i) v = graph.add_op("Relu", {graph.add_op("Abs", {v})});
  graph.add_output(graph.add_op("Neg", {v}));
  graph.opsets()[""] = kOnnxOpset;
  return graph;
}

float first_result(Program& program) {
  Tensor x = Tensor::allocate(DType::kFloat32, {3});
  std::fill_n(x.data<float>(), 3, -2.0F);
  std::vector<Data> outputs;
  program.run(std::vector<Data>{x}, outputs);
  return outputs[0].tensor().data<float>()[0];
}

TEST(Options, NoLimitMeansOneFunction) {
  ProgramOptions options;
  options.engines = {"native"};
  for (const auto& [limit, launches] :
       std::map<std::int64_t, std::size_t>{{-1, 1}, {1000, 1}, {7, 3}, {1, 21}}) {
    options.cluster_maximum_nodes = limit;
    EXPECT_EQ(Program::compile(chain(10), options)->explain().launches.size(), launches) << limit;
  }
}

TEST(Options, LaunchesOfTwoEnginesHaveNamesOfTheirOwnAndEveryEdge) {
  picky("abs_only", {"Abs", "Neg"});
  picky("relu_only", {"Relu"});
  ProgramOptions options;
  options.engines = {"abs_only", "relu_only"};
  options.strict = true;
  const auto program = Program::compile(chain(5), options);
  EXPECT_FLOAT_EQ(first_result(*program), -2);
  std::set<std::string> names;
  std::set<std::string> written{"x"};
  const Explanation explanation = program->explain();
  for (const Explanation::LaunchRow& launch : explanation.launches) {
    EXPECT_TRUE(names.insert(launch.function).second) << launch.function << " is there twice";
    for (const std::string& value : launch.reads) EXPECT_TRUE(written.contains(value)) << value;
    written.insert(launch.writes.begin(), launch.writes.end());
  }
  EXPECT_EQ(names.size(), 11U);
  // Names are the same in every program: nothing depends on addresses.
  std::vector<std::unique_ptr<char[]>> shift;
  for (int i = 0; i < 5; ++i) {
    shift.push_back(std::make_unique<char[]>(static_cast<std::size_t>(1000 * (i + 1))));
    std::set<std::string> again;
    const Explanation other = Program::compile(chain(5), options)->explain();
    for (const auto& launch : other.launches) again.insert(launch.function);
    EXPECT_EQ(again, names);
  }
}

TEST(Options, AForcedCompilationLeavesRunningProgramsAlone) {
  const auto engine = picky("forced", {"Abs", "Relu", "Neg"});
  ProgramOptions options;
  options.engines = {"forced"};
  options.cache_dir = fs::path(::testing::TempDir()) / "forced_cache";
  fs::remove_all(*options.cache_dir);
  const auto first = Program::compile(chain(2), options);
  EXPECT_EQ(engine->compiled, 1);
  EXPECT_TRUE(Program::compile(chain(2), options)->explain().launches[0].from_cache);
  options.force_compile = true;
  for (int i = 2; i < 5; ++i) {
    const auto again = Program::compile(chain(2), options);
    EXPECT_FALSE(again->explain().launches[0].from_cache);
    EXPECT_EQ(engine->compiled, i);
    EXPECT_FLOAT_EQ(first_result(*again), -2);
    EXPECT_FLOAT_EQ(first_result(*first), -2);
  }
  options.force_compile = false;
  EXPECT_TRUE(Program::compile(chain(2), options)->explain().launches[0].from_cache);
}

TEST(Options, WhatChangesTheCodeIsInTheCacheKey) {
  const auto engine = picky("keyed", {"Abs", "Relu", "Neg"});
  ProgramOptions options;
  options.engines = {"keyed"};
  options.cache_dir = fs::path(::testing::TempDir()) / "keyed_cache";
  fs::remove_all(*options.cache_dir);
  int expected = 0;
  const auto compile = [&](bool is_new) {
    const auto program = Program::compile(chain(1), options);
    expected += is_new ? 1 : 0;
    EXPECT_EQ(engine->compiled, expected);
    EXPECT_EQ(program->explain().launches[0].from_cache, !is_new);
  };
  compile(true);
  compile(false);
  options.num_threads = 1;
  compile(thread_budget() != 1);
  options.max_batch_size = 8;
  compile(true);
  options.max_workspace_bytes = 1 << 20;
  compile(true);
  options.training = true;
  compile(true);
  options.engine_options["keyed"]["level"] = "2";
  compile(true);
  options.engine_options["keyed"]["level"] = "3";
  compile(true);
  compile(false);
}

TEST(Options, ABoundOnScratchMemoryIsKept) {
  ProgramOptions options;
  options.engines = {"native"};
  options.max_workspace_bytes = 1;
  Graph graph("wide");
  ValueId v = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{1000, 8}));
  v = graph.add_op("Transpose", {graph.add_op("MatMul", {v, graph.add_op("Transpose", {v})})});
  graph.add_output(graph.add_op("Softmax", {v}));
  graph.opsets()[""] = kOnnxOpset;
  try {
    Program::compile(std::move(graph), options);
    FAIL() << "it needs more than a byte";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("max_workspace_size is 1"));
  }
}

}  // namespace
}  // namespace xrt
