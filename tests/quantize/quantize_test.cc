// SPDX-License-Identifier: Apache-2.0
#include "xrt/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ir/verifier.h"
#include "ops/shape_inference.h"
#include "quantize/sink_dequantize.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using testing::HasSubstr;

Type f32(const Dims& dims) { return Type::tensor(DType::kFloat32, dims); }

ValueId ones(Graph& g, const std::string& name, const Dims& dims, float value = 1) {
  Tensor t = Tensor::allocate(DType::kFloat32, dims);
  std::fill_n(t.data<float>(), t.count(), value);
  return g.add_constant(name, t);
}

std::size_t count(const Graph& g, const std::string& op) {
  const auto nodes = g.nodes();
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](NodeId id) { return g.node(id).op == op; }));
}

// x -> Conv a -> Add(Conv b of x) -> Relu -> MaxPool -> Conv c -> y
Graph residual() {
  Graph g("residual");
  const ValueId x = g.add_input("x", f32({1, 4, 6, 6}));
  const ValueId a = g.add_op("Conv", {x, ones(g, "wa", {4, 4, 1, 1})}, {}, "a");
  const ValueId b = g.add_op("Conv", {x, ones(g, "wb", {4, 4, 1, 1})}, {}, "b");
  const ValueId sum = g.add_op("Add", {a, b}, {}, "sum");
  const ValueId relu = g.add_op("Relu", {sum}, {}, "relu");
  const ValueId pool = g.add_op("MaxPool", {relu},
                                {{"kernel_shape", std::vector<std::int64_t>{2, 2}},
                                 {"strides", std::vector<std::int64_t>{2, 2}}},
                                "pool");
  g.add_output(g.add_op("Conv", {pool, ones(g, "wc", {2, 4, 1, 1}), ones(g, "bc", {2})}, {}, "y"));
  infer_shapes(g);
  return g;
}

ValueRanges all(const Graph& g, float low, float high) {
  ValueRanges ranges;
  for (const char* name : {"x", "a", "b", "sum", "relu", "pool", "y"}) {
    if (g.find_value(name)) ranges[name] = {low, high};
  }
  return ranges;
}

TEST(Quantize, RoundsAtTheEndsOfChainsOnly) {
  Graph g = residual();
  const QuantizeSummary done = quantize(g, all(g, -1, 1), {});
  EXPECT_EQ(done.sums, 3U);
  EXPECT_EQ(done.kept, 0U);
  // x; one of the two convolutions, the other takes the Add in; relu; pool; y.
  EXPECT_EQ(done.values, 5U);
  EXPECT_EQ(count(g, "QuantizeLinear"), 5U);
  EXPECT_NO_THROW(verify(g));
  ASSERT_EQ(g.outputs().size(), 1U);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
  EXPECT_EQ(g.type(g.outputs()[0]), f32({1, 2, 3, 3}));
  // What the float weights were is gone.
  EXPECT_FALSE(g.find_value("wa"));
  EXPECT_FALSE(g.find_value("bc"));
  // relu and pool share a scale, as nothing is rounded between them.
  const auto scale = [&](const char* name) {
    return g.constant(*g.find_value(std::string(name) + "/scale"))->data<float>()[0];
  };
  EXPECT_EQ(scale("relu"), scale("pool"));
  EXPECT_FLOAT_EQ(scale("relu"), 2.0F / 255);
}

TEST(Quantize, MovedValuesStayInEightBits) {
  Graph g = residual();
  quantize(g, all(g, -1, 1), {});
  EXPECT_TRUE(sink_dequantize(g));
  EXPECT_NO_THROW(verify(g));
  EXPECT_EQ(count(g, "QuantizeLinear"), 4U);
  const NodeId pool = g.value(*g.find_value("pool")).producer;
  EXPECT_EQ(g.type(g.node(pool).input(0)).dtype, DType::kUInt8);
  EXPECT_FALSE(sink_dequantize(g));
}

TEST(Quantize, SkipsNodesThatAreNamed) {
  Graph g = residual();
  QuantizeOptions options;
  for (const NodeId id : g.nodes()) {
    if (g.node(id).op == "Conv") options.skip.insert(g.node(id).name);
  }
  const QuantizeSummary done = quantize(g, {}, options);
  EXPECT_EQ(done.sums, 0U);
  EXPECT_EQ(done.kept, 3U);
  EXPECT_EQ(count(g, "QuantizeLinear"), 0U);
}

TEST(Quantize, NamesAValueWithoutARange) {
  Graph g = residual();
  ValueRanges ranges = all(g, -1, 1);
  ranges.erase("relu");
  try {
    quantize(g, ranges, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("'relu'"));
  }
}

TEST(Quantize, ALargeBiasGetsCoarserWeights) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 4}));
  const ValueId w = ones(g, "w", {4, 1}, 1e-9F), b = ones(g, "b", {1}, 1000);
  g.add_output(g.add_op("Gemm", {x, w, b}, {}, "y"));
  infer_shapes(g);
  quantize(g, {{"x", {0, 1}}, {"y", {0, 1000}}}, {});
  const Tensor& bias = *g.constant(*g.find_value("b/quantized"));
  const Tensor& scale = *g.constant(*g.find_value("b/scale"));
  ASSERT_EQ(bias.dtype(), DType::kInt32);
  EXPECT_NEAR(double{scale.data<float>()[0]} * bias.data<std::int32_t>()[0], 1000, 1e-3);
}

// --- calibration -----------------------------------------------------------------------------

// Outputs are the input times one, two, …
GraphRunner multiples() {
  return [](Graph graph) -> GraphRun {
    const std::size_t outputs = graph.outputs().size();
    return [outputs](const std::vector<Tensor>& inputs) {
      std::vector<Tensor> result;
      for (std::size_t i = 1; i <= outputs; ++i) {
        Tensor t = inputs[0].clone();
        for (std::int64_t k = 0; k < t.count(); ++k) t.data<float>()[k] *= static_cast<float>(i);
        result.push_back(t);
      }
      return result;
    };
  };
}

Tensor filled(const Dims& dims, float value) {
  Tensor t = Tensor::allocate(DType::kFloat32, dims);
  std::fill_n(t.data<float>(), t.count(), value);
  return t;
}

TEST(Calibrator, KeepsTheExtremesOfAllSamples) {
  const Graph g = residual();
  Calibrator c(g, {}, multiples());
  EXPECT_THROW(c.ranges(), Error);
  c.add({filled({1, 4, 6, 6}, -2)});
  c.add({filled({1, 4, 6, 6}, 5)});
  EXPECT_EQ(c.samples(), 2U);
  const ValueRanges ranges = c.ranges();
  EXPECT_EQ(ranges.at("x").low, -2);
  EXPECT_EQ(ranges.at("x").high, 5);
  EXPECT_EQ(ranges.at("y").high, 5);  // the graph's own output is the first
}

TEST(Calibrator, RefusesSamplesThatDoNotFit) {
  const Graph g = residual();
  Calibrator c(g, {}, multiples());
  const auto refusal = [&](const std::vector<Tensor>& sample) -> std::string {
    try {
      c.add(sample);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({}), HasSubstr("0 values for 1 inputs"));
  EXPECT_THAT(refusal({Tensor()}), HasSubstr("'x' is missing"));
  EXPECT_THAT(refusal({filled({1, 4, 6, 5}, 1)}), HasSubstr("float32[1,4,6,6], not float32"));
  EXPECT_THAT(refusal({filled({1, 4, 6, 6}, std::nanf(""))}), HasSubstr("'x' holds nan"));
  EXPECT_THAT(refusal({filled({1, 4, 6, 6}, 3e38F)}), HasSubstr("is not finite"));
  EXPECT_EQ(c.samples(), 0U);
}

TEST(Calibrator, NeedsSomethingToQuantise) {
  Graph g;
  g.add_output(g.add_op("Relu", {g.add_input("x", f32({2}))}));
  infer_shapes(g);
  EXPECT_THROW(Calibrator(g, {}, multiples()), Error);
  QuantizeOptions options;
  options.percentile = 20;
  EXPECT_THROW(Calibrator(residual(), options, multiples()), Error);
}

}  // namespace
}  // namespace xrt
