// SPDX-License-Identifier: Apache-2.0
// Networks that the vendor's builder really builds, without a GPU, for compute capability 8.9.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engines/tensorrt/engine.h"
#include "engines/tensorrt/library.h"
#include "engines/tensorrt/lowering.h"
#include "engines/tensorrt/plan.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "tests/support/engine_calls.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace xrt::tensorrt {
namespace {

using testing::Contains;
using testing::HasSubstr;

namespace fs = std::filesystem;

Tensor ramp(Dims dims, float scale = 0.01F) {
  Tensor out = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < out.count(); ++i) {
    out.data<float>()[i] = scale * static_cast<float>(i % 17 - 8);
  }
  return out;
}

class NetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_rtx()) GTEST_SKIP() << "only TensorRT-RTX builds without a GPU";
    options_.device = "cuda:0";
    options_.engine_options["compute_capabilities"] = "89";
  }

  // y = Relu(Conv(x, w)); `weight` scales w.
  static Graph conv_relu(Shape input, float weight = 0.01F) {
    Graph g("conv_relu");
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, std::move(input)));
    const ValueId w = g.add_constant("w", ramp({16, 3, 3, 3}, weight));
    const ValueId c =
        g.add_op("Conv", {x, w}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}, "c");
    g.add_output(g.add_op("Relu", {c}, {}, "y"));
    infer_shapes(g);
    canonicalize(g);
    return g;
  }

  void expect_claimed(const Graph& graph) const {
    for (const NodeId id : graph.nodes()) {
      const Support answer = engine_.supports({view_of(graph), id, "cuda:0"});
      EXPECT_TRUE(answer) << graph.node(id).qualified_op() << ": " << answer.reason();
    }
  }

  std::shared_ptr<const Executable> compile(const Graph& graph) const {
    return engine_.compile(function_of("f", graph), options_);
  }
  std::string plan_of(const Graph& graph) const { return compile(graph)->serialize().value(); }

  std::string message_of(const Graph& graph, ErrorCode code) const {
    try {
      compile(graph);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "compiled";
  }

  TensorRtEngine engine_{nullptr, "no NVIDIA driver"};
  CompileOptions options_;
};

TEST_F(NetworkTest, AConvolutionBecomesAPlan) {
  const Graph graph = conv_relu(Shape{1, 3, 8, 8});
  expect_claimed(graph);
  EXPECT_GT(plan_of(graph).size(), 10'000U);
}

TEST_F(NetworkTest, ThePlanLoadsBackAndIsNotRunWithoutAGpu) {
  const Graph graph = conv_relu(Shape{1, 3, 8, 8});
  const std::string bytes = plan_of(graph);
  const Tensor blob = Tensor::from<char>(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())},
                                         std::span<const char>(bytes));
  const auto executable = engine_.load(view_of(blob), function_of("f", graph), options_);
  EXPECT_EQ(executable->serialize(), bytes);
  EXPECT_THROW(executable->create_context(), Error);
  // The bytes of another function.
  Graph other("other");
  other.add_output(other.add_op(
      "Relu", {other.add_input("x", Type::tensor(DType::kFloat32, Dims{3}))}, {}, "y"));
  infer_shapes(other);
  EXPECT_THROW(engine_.load(view_of(blob), function_of("f", other), options_), Error);
}

TEST_F(NetworkTest, OpenDimensionsGetAProfile) {
  const Graph graph = conv_relu(Shape{Dim("N"), 3, Dim("H"), 32});
  expect_claimed(graph);
  options_.engine_options["shapes"] = "N=1:8:32,H=16:32:64";
  EXPECT_THAT(plan_of(graph), HasSubstr("\n1:8:32,3,16:32:64,32\n"));
  options_.engine_options.erase("shapes");
  options_.max_batch_size = 4;
  EXPECT_THAT(plan_of(graph), HasSubstr("\n1:4:4,3,1:64:64,32\n"));
  options_.ranges = {{"N", 2, 3, 5}, {"H", 16, 32, 48}};
  EXPECT_THAT(plan_of(graph), HasSubstr("\n2:3:5,3,16:32:48,32\n"));
  options_.engine_options["shapes"] = "N=1:8:32";  // said to this engine alone
  EXPECT_THAT(plan_of(graph), HasSubstr("\n1:8:32,3,16:32:48,32\n"));
}

TEST_F(NetworkTest, OptionsReachTheBuilder) {
  const Graph graph = conv_relu(Shape{1, 3, 8, 8});
  options_.engine_options["tf32"] = "1";
  options_.engine_options["optimization_level"] = "1";
  options_.max_workspace_bytes = std::size_t{64} << 20U;
  EXPECT_GT(plan_of(graph).size(), 10'000U);
  options_.max_workspace_bytes = 1024;
  EXPECT_THAT(message_of(graph, ErrorCode::kEngine), HasSubstr("within workspace limit"));
  options_.max_workspace_bytes = 0;
  options_.engine_options["compute_capabilities"] = "86,120";
  EXPECT_GT(plan_of(graph).size(), 10'000U);
  options_.engine_options["compute_capabilities"] = "90";
  EXPECT_THAT(message_of(graph, ErrorCode::kInvalidArgument),
              HasSubstr("90 is none that TensorRT-RTX"));
  options_.engine_options["compute_capabilities"] = "89";
  options_.engine_options["optimization_level"] = "7";
  EXPECT_THAT(message_of(graph, ErrorCode::kInvalidArgument), HasSubstr("no number from 0 to 5"));
  options_.engine_options.erase("optimization_level");
  options_.engine_options["precison"] = "f16";
  EXPECT_THAT(message_of(graph, ErrorCode::kInvalidArgument), HasSubstr("no option 'precison'"));
}

TEST_F(NetworkTest, ATimingCacheIsKeptAndADamagedOneReplaced) {
  const fs::path folder = fs::path(testing::TempDir()) / "xrt_tensorrt_timing";
  fs::remove_all(folder);
  BuildOptions build = parse_build_options(options_);
  build.timing_cache = folder / "timing.bin";
  const Graph graph = conv_relu(Shape{1, 3, 8, 8});
  const Ranges ranges = initial_ranges(graph, options_);
  build_plan(graph, "f", ranges, build, options_);
  ASSERT_TRUE(fs::exists(build.timing_cache));
  const auto size = fs::file_size(build.timing_cache);
  EXPECT_GT(size, 0U);
  build_plan(graph, "f", ranges, build, options_);
  std::ofstream(build.timing_cache) << "damaged";
  build_plan(graph, "f", ranges, build, options_);
  EXPECT_EQ(fs::file_size(build.timing_cache), size);
  // A folder that cannot be made costs a warning.
  build.timing_cache = folder / "timing.bin" / "below" / "timing.bin";
  testing::internal::CaptureStderr();
  build_plan(graph, "f", ranges, build, options_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the timing cache was not kept"));
}

TEST_F(NetworkTest, WithoutAGpuACapabilityMustBeNamed) {
  options_.engine_options.clear();
  EXPECT_THAT(message_of(conv_relu(Shape{1, 3, 8, 8}), ErrorCode::kEngine),
              HasSubstr("no NVIDIA driver: a plan can be built for another machine with the option "
                        "compute_capabilities"));
}

TEST_F(NetworkTest, ProgressIsReported) {
  std::vector<double> parts;
  options_.progress = [&](std::string_view, double part) { parts.push_back(part); };
  compile(conv_relu(Shape{1, 3, 8, 8}));
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(parts.front(), 0.0);
  EXPECT_GT(parts.back(), 0.0);
}

ValueId zeros(Graph& g, const char* name, Dims dims) {
  Tensor t = Tensor::allocate(DType::kInt8, std::move(dims));
  std::memset(t.raw(), 0, t.bytes());
  return g.add_constant(name, t);
}

// int8 weights, scaled per channel along `axis`.
ValueId dequantized(Graph& g, Dims dims, std::int64_t axis) {
  const std::int64_t channels = dims[static_cast<std::size_t>(axis)];
  Tensor weights = Tensor::allocate(DType::kInt8, std::move(dims));
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    weights.data<std::int8_t>()[i] = static_cast<std::int8_t>(i % 251 - 125);
  }
  Tensor scales = Tensor::allocate(DType::kFloat32, {channels});
  std::fill_n(scales.data<float>(), channels, 0.001F);
  return g.add_op(
      "DequantizeLinear",
      {g.add_constant("w", weights), g.add_constant("ws", scales), zeros(g, "zw", {channels})},
      {{"axis", axis}}, "wd");
}

// int8 by explicit Q/DQ: activations per tensor, weights per channel, bias as it is.
TEST_F(NetworkTest, QuantizedConvolutionsAreBuilt) {
  Graph g("quantized");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 16, 16, 16}));
  const ValueId scale = g.add_constant("scale", Tensor::scalar(0.02F));
  const ValueId q = g.add_op("QuantizeLinear", {x, scale, zeros(g, "zx", {})}, {}, "q");
  const ValueId d = g.add_op("DequantizeLinear", {q, scale, zeros(g, "zd", {})}, {}, "d");
  const ValueId w = dequantized(g, {32, 16, 3, 3}, 0);
  const ValueId c = g.add_op("Conv", {d, w, g.add_constant("b", ramp({32}))},
                             {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}, "c");
  g.add_output(g.add_op("Relu", {c}, {}, "y"));
  infer_shapes(g);
  canonicalize(g);
  expect_claimed(g);
  EXPECT_GT(plan_of(g).size(), 5'000U);
}

TEST_F(NetworkTest, QuantizedProductsAreBuilt) {
  Graph g("product");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{16, 64}));
  const ValueId scale = g.add_constant("scale", Tensor::scalar(0.02F));
  const ValueId q = g.add_op("QuantizeLinear", {x, scale, zeros(g, "zx", {})}, {}, "q");
  const ValueId d = g.add_op("DequantizeLinear", {q, scale, zeros(g, "zd", {})}, {}, "d");
  const ValueId w = dequantized(g, {64, 32}, 1);
  g.add_output(g.add_op("MatMul", {d, w}, {}, "y"));
  infer_shapes(g);
  canonicalize(g);
  expect_claimed(g);
  EXPECT_GT(plan_of(g).size(), 5'000U);
}

TEST_F(NetworkTest, AnAsymmetricZeroPointIsRefused) {
  Graph g("asymmetric");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  Tensor zero = Tensor::allocate(DType::kInt8, {});
  *zero.data<std::int8_t>() = 3;
  g.add_output(g.add_op("QuantizeLinear",
                        {x, g.add_constant("s", Tensor::scalar(0.1F)), g.add_constant("z", zero)},
                        {}, "y"));
  infer_shapes(g);
  canonicalize(g);
  const Support answer = engine_.supports({view_of(g), g.nodes().front(), "cuda:0"});
  EXPECT_FALSE(answer);
  EXPECT_THAT(answer.reason(), HasSubstr("the zero point is not zero"));
}

TEST_F(NetworkTest, RefusalsNameTheirReason) {
  const auto reason = [&](DType dtype, const char* op, std::size_t operands) {
    Graph g("g");
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < operands; ++i) {
      inputs.push_back(g.add_input(fmt::format("x{}", i), Type::tensor(dtype, Dims{4})));
    }
    g.add_output(g.add_op(op, inputs, {}, "y"));
    infer_shapes(g);
    canonicalize(g);
    return engine_.supports({view_of(g), g.nodes().front(), "cuda:0"}).reason();
  };
  EXPECT_THAT(reason(DType::kFloat64, "Relu", 1), HasSubstr("TensorRT has no such elements"));
  EXPECT_THAT(reason(DType::kUInt8, "BitwiseNot", 1), HasSubstr("no lowering for BitwiseNot"));
  EXPECT_THAT(reason(DType::kInt64, "Reshape", 2), HasSubstr("the shape is not a constant"));
  const Graph graph = conv_relu(Shape{1, 3, 8, 8});
  const NodeId node = graph.nodes().front();
  EXPECT_THAT(engine_.supports({view_of(graph), node, "cuda:0", Phase::kTraining}).reason(),
              HasSubstr("inference only"));
  EXPECT_THAT(engine_.supports({view_of(graph), node, "cpu"}).reason(),
              HasSubstr("no device 'cpu'"));
}

// A branch that is never taken may make no sense for the shapes of the other one.
TEST_F(NetworkTest, SplitsOfTooFewElementsAreRefused) {
  Graph g("split");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 2}));
  const NodeId node =
      g.add_node("", "Split", {x, g.add_constant("l", Tensor::from_int64(Dims{3, -1}))}, {"a", "b"},
                 {{"axis", std::int64_t{1}}});
  for (const ValueId output : g.node(node).outputs) {
    g.set_type(output, Type::tensor(DType::kFloat32, Shape{1, Dim()}));
  }
  EXPECT_THAT(engine_.supports({view_of(g), node, "cuda:0"}).reason(),
              HasSubstr("a length below zero"));
}

TEST_F(NetworkTest, AConditionOfTheRunBecomesAConditional) {
  Graph g("choice");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  const ValueId condition = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const auto branch = [&](const char* op) {
    auto body = std::make_shared<Graph>(op);
    const ValueId inner = body->add_capture(x, "x_in", g.type(x));
    const ValueId y = body->add_op(op, {inner}, {}, std::string(op) + "_out");
    body->set_type(y, g.type(x));
    body->add_output(y);
    return body;
  };
  const ValueId y = g.add_op(
      "If", {condition}, {{"then_branch", branch("Relu")}, {"else_branch", branch("Exp")}}, "y");
  g.set_type(y, g.type(x));
  g.add_output(y);
  expect_claimed(g);
  EXPECT_GT(plan_of(g).size(), 5'000U);
}

TEST_F(NetworkTest, WhatTheEngineSaysOfItself) {
  EXPECT_EQ(engine_.name(), "tensorrt");
  EXPECT_THAT(engine_.info().version, HasSubstr("TensorRT-RTX 1."));
  EXPECT_THAT(engine_.info().version, HasSubstr("(no GPU)"));
  EXPECT_THAT(engine_.info().location, HasSubstr("libtensorrt_rtx"));
  EXPECT_THAT(engine_.ops(), Contains("Conv"));
}

TEST(Library, OnlyHeadersOfTheLibrarysOwnProductFit) {
  EXPECT_EQ(refuse_pair(1, 6, 1, 6), "");
  EXPECT_EQ(refuse_pair(1, 6, 1, 7), "");
  EXPECT_EQ(refuse_pair(11, 0, 11, 4), "");
  EXPECT_NE(refuse_pair(1, 7, 1, 6), "");
  EXPECT_NE(refuse_pair(1, 4, 1, 6), "");
  EXPECT_NE(refuse_pair(10, 16, 11, 1), "");
  EXPECT_THAT(refuse_pair(11, 1, 1, 7), HasSubstr("headers of version 11.1"));
}

// Whole models, where they are found (benchmarks/export_models.py makes them): as programs, all of
// whose nodes are TensorRT's. The run that fixes the shapes builds the plan.
TEST_F(NetworkTest, WholeModelsAreBuilt) {
  try {
    open_cuda_driver();
    GTEST_SKIP() << "this machine has a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
  }
  const char* home = std::getenv("HOME");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const fs::path folder =
      (cache != nullptr ? fs::path(cache) : fs::path(home != nullptr ? home : "") / ".cache") /
      "openxrt" / "models";
  const std::map<std::string, Dims> models = {{"resnet50", {1, 3, 224, 224}},
                                              {"mobilenet_v2", {1, 3, 224, 224}},
                                              {"ppocr_v6_det", {1, 3, 320, 640}},
                                              {"minilm", {1, 128}}};
  int built = 0;
  for (const auto& [name, dims] : models) {
    const fs::path file = folder / (name + ".onnx");
    if (!fs::exists(file)) continue;
    ProgramOptions options;
    options.engines = {"tensorrt"};
    options.device = "cuda:0";
    options.strict = true;
    options.cache_dir = "";
    options.engine_options["tensorrt"] = options_.engine_options;
    const auto program = Program::load(file, options);
    std::vector<Data> inputs;
    for (const Port& port : program->inputs()) {
      Tensor x = Tensor::allocate(port.type.dtype, dims);
      std::memset(x.raw(), 0, x.bytes());
      inputs.emplace_back(x);
    }
    std::vector<Data> outputs;
    try {
      program->run(inputs, outputs);
      ADD_FAILURE() << name << " ran";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a plan of TensorRT runs on a GPU")) << name;
    }
    ++built;
  }
  if (built == 0) GTEST_SKIP() << "no models in " << folder;
}

}  // namespace
}  // namespace xrt::tensorrt
