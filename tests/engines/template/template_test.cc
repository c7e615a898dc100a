// SPDX-License-Identifier: Apache-2.0
// The template engine against the native one, and what it says about ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "xrt/program.h"

namespace xrt {
namespace {

Tensor filled(const Dims& dims, float start) {
  Tensor tensor = Tensor::allocate(DType::kFloat32, dims);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    tensor.data<float>()[i] = start + 0.5F * static_cast<float>(i % 7);
  }
  return tensor;
}

// y = Relu(MatMul(x, w) + b), w a constant.
Graph layer() {
  Graph graph("layer");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim(2), Dim(3)}));
  const ValueId b = graph.add_input("b", Type::tensor(DType::kFloat32, Shape{Dim(2), Dim(4)}));
  const ValueId w = graph.add_constant("w", filled({3, 4}, -1.0F));
  const ValueId sum = graph.add_op("Add", {graph.add_op("MatMul", {x, w}), b});
  graph.add_output(graph.add_op("Relu", {sum}));
  graph.opsets()[""] = kOnnxOpset;
  return graph;
}

TEST(TemplateEngine, ComputesWhatTheNativeEngineDoes) {
  const std::vector<Data> inputs{filled({2, 3}, -1.0F), filled({2, 4}, -2.0F)};
  std::vector<Data> expected;
  std::vector<Data> actual;
  ProgramOptions options;
  options.strict = true;
  options.engines = {"native"};
  Program::compile(layer(), options)->run(inputs, expected);
  options.engines = {"template"};
  const auto program = Program::compile(layer(), options);
  for (int run = 0; run < 2; ++run) {
    actual.clear();
    program->run(inputs, actual);
    for (std::int64_t i = 0; i < expected[0].tensor().count(); ++i) {
      EXPECT_FLOAT_EQ(actual[0].tensor().data<float>()[i], expected[0].tensor().data<float>()[i]);
    }
  }
  EXPECT_GT(program->explain().launches.at(0).workspace_bytes, 0U);
}

TEST(TemplateEngine, TrainingLeavesOutWhatIsForInferenceOnly) {
  ProgramOptions options;
  options.engines = {"template"};
  options.training = true;
  const Explanation explanation = Program::compile(layer(), options)->explain();
  EXPECT_EQ(explanation.nodes_per_engine,
            (std::map<std::string, std::size_t>{{"native", 1}, {"template", 2}}));
}

TEST(TemplateEngine, UpdatesInPlace) {
  Graph graph("update");
  const Type type = Type::tensor(DType::kFloat32, Shape{Dim(5)});
  const ValueId w = graph.add_input("w", type);
  const ValueId step = graph.add_input("step", type);
  const ValueId sum = graph.add_op("Add", {w, step});
  graph.add_output(sum);
  graph.opsets()[""] = kOnnxOpset;
  ProgramOptions options;
  options.engines = {"template"};
  options.strict = true;
  options.aliases = {{"w", graph.value(sum).name}};
  const auto program = Program::compile(std::move(graph), options);
  Tensor weights = filled({5}, 1.0F);
  Tensor steps = filled({5}, -3.0F);
  const std::vector<Data> inputs{weights, steps};
  for (int run = 1; run <= 3; ++run) {
    std::vector<Data> outputs;
    program->run(inputs, outputs);
    EXPECT_EQ(outputs[0].tensor().raw(), weights.raw());
    for (int i = 0; i < 5; ++i) {
      const float part = 0.5F * static_cast<float>(i);
      EXPECT_FLOAT_EQ(weights.data<float>()[i], 1 + part + static_cast<float>(run) * (part - 3));
    }
  }
}

TEST(TemplateEngine, HasNoOptions) {
  ProgramOptions options;
  options.engines = {"template"};
  options.engine_options["template"]["speed"] = "high";
  EXPECT_THROW(Program::compile(layer(), options), Error);
}

TEST(TemplateEngine, ReadsBackWhatTheCacheKeeps) {
  ProgramOptions options;
  options.engines = {"template"};
  options.cache_dir = std::filesystem::path(::testing::TempDir()) / "template_cache";
  std::filesystem::remove_all(*options.cache_dir);
  Program::compile(layer(), options);
  EXPECT_TRUE(Program::compile(layer(), options)->explain().launches.at(0).from_cache);
}

}  // namespace
}  // namespace xrt
