// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ir/printer.h"
#include "ir/verifier.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

ValueId floats(Graph& g, const std::string& name, const Dims& dims, const Floats& values) {
  return g.add_constant(name,
                        Tensor::from<float>(DType::kFloat32, dims, std::span<const float>(values)));
}
ValueId ints(Graph& g, const std::string& name, const Ints& values) {
  return g.add_constant(name, Tensor::from_int64(values));
}
Type f32(const Dims& dims) { return Type::tensor(DType::kFloat32, dims); }

std::vector<std::string> ops(const Graph& g) {
  std::vector<std::string> names;
  for (const NodeId id : g.topological_order()) names.push_back(g.node(id).op);
  return names;
}

Floats values(const Tensor& t) { return {t.data<float>(), t.data<float>() + t.count()}; }

// --- dead code ---------------------------------------------------------------------------------

TEST(DeadCode, RemovesWhatNobodyReads) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2}));
  const ValueId unused_input = g.add_input("unused", f32({2}));
  floats(g, "c", {1}, {1});
  g.add_op("Neg", {g.add_op("Exp", {x})});
  g.add_output(g.add_op("Relu", {x}));
  EXPECT_TRUE(remove_dead_code(g));
  EXPECT_EQ(ops(g), std::vector<std::string>{"Relu"});
  EXPECT_TRUE(g.constants().empty());
  EXPECT_TRUE(g.alive(unused_input));
  EXPECT_FALSE(remove_dead_code(g));
  EXPECT_NO_THROW(verify(g));
}

TEST(DeadCode, FreesWhatOnlyADeadSubgraphNodeCaptured) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", f32({2}));
  const ValueId a = g.add_op("Exp", {x});
  auto body = std::make_shared<Graph>("body");
  const ValueId inner = body->add_capture(a, "a", f32({2}));
  body->add_op("Neg", {inner});
  body->add_output(body->add_op("Relu", {body->add_capture(x, "x", f32({2}))}));
  g.add_output(g.add_op("If", {c},
                        {{"then_branch", body}, {"else_branch", std::make_shared<Graph>(*body)}}));
  infer_shapes(g);
  EXPECT_TRUE(remove_dead_code(g));  // the Neg inside, its capture …
  remove_dead_code(g);               // … and then the Exp outside
  EXPECT_EQ(ops(g), std::vector<std::string>{"If"});
  EXPECT_NO_THROW(verify(g));
}

// --- identities --------------------------------------------------------------------------------

TEST(Identities, RemovesNodesThatHandOnTheirInput) {
  Graph g;
  ValueId v = g.add_op("Relu", {g.add_input("x", f32({2, 3}))});
  v = g.add_op("Identity", {v});
  v = g.add_op("Dropout", {v});
  v = g.add_op("Cast", {v}, {{"to", std::int64_t{1}}});
  v = g.add_op("Transpose", {v}, {{"perm", Ints{0, 1}}});
  v = g.add_op("Reshape", {v, ints(g, "shape", {2, 3})});
  v = g.add_op("Pad", {v, ints(g, "pads", {0, 0, 0, 0})});
  v = g.add_op("Concat", {v}, {{"axis", std::int64_t{0}}});
  v = g.add_op("Slice", {v, ints(g, "starts", {0}), ints(g, "ends", {2})});
  v = g.add_op("Neg", {v}, {}, "y");
  g.add_output(v);
  infer_shapes(g);
  EXPECT_TRUE(remove_identities(g));
  EXPECT_EQ(ops(g), (std::vector<std::string>{"Relu", "Neg"}));
  EXPECT_NO_THROW(verify(g));
}

TEST(Identities, KeepsWhatOnlyLooksLikeOne) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 2}));
  const ValueId d = g.add_input("d", Type::tensor(DType::kFloat32, Shape{Dim(), 2}));
  g.add_output(g.add_op("Slice", {x, ints(g, "last", {-1}), ints(g, "before", {-9}),
                                  ints(g, "axis", {0}), ints(g, "step", {-1})}));
  g.add_output(g.add_op("Transpose", {x}));
  g.add_output(g.add_op("Reshape", {d, ints(g, "shape", {-1, 2})}));
  const ValueId training = g.add_constant(
      "training", Tensor::from<std::uint8_t>(DType::kBool, {}, std::vector<std::uint8_t>{1}));
  g.add_output(g.add_op("Dropout", {x, g.add_constant("r", Tensor::scalar(0.5F)), training}));
  infer_shapes(g);
  EXPECT_FALSE(remove_identities(g));
}

TEST(Identities, OutputsKeepTheirNames) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2}));
  const ValueId a = g.add_op("Relu", {x}, {}, "hidden");
  g.add_output(g.add_op("Identity", {a}, {}, "result"));
  g.add_output(g.add_op("Identity", {x}, {}, "copy"));
  infer_shapes(g);
  EXPECT_TRUE(remove_identities(g));
  ASSERT_EQ(g.outputs().size(), 2U);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "result");
  EXPECT_EQ(g.value(g.outputs()[1]).name, "copy");
  EXPECT_EQ(ops(g), (std::vector<std::string>{"Relu", "Identity"}));
  EXPECT_NO_THROW(verify(g));
}

// --- common sub-expressions --------------------------------------------------------------------

TEST(CommonSubexpressions, SharesEqualNodesAndConstants) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2}));
  const auto half = [&](const char* name) {
    return g.add_op("Elu", {g.add_op("Mul", {x, floats(g, name, {1}, {0.5F})})}, {{"alpha", 2.0F}});
  };
  g.add_output(g.add_op("Add", {half("a"), half("b")}, {}, "y"));
  infer_shapes(g);
  EXPECT_TRUE(share_common_subexpressions(g));
  EXPECT_EQ(ops(g), (std::vector<std::string>{"Mul", "Elu", "Add"}));
  EXPECT_EQ(g.constants().size(), 1U);
  EXPECT_NO_THROW(verify(g));
}

TEST(CommonSubexpressions, TellsAttributesInputsAndRandomnessApart) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2}));
  const ValueId y = g.add_input("y", f32({2}));
  g.add_output(g.add_op("Elu", {x}, {{"alpha", 2.0F}}));
  g.add_output(g.add_op("Elu", {x}, {{"alpha", 3.0F}}));
  g.add_output(g.add_op("Sub", {x, y}));
  g.add_output(g.add_op("Sub", {y, x}));
  g.add_output(g.add_op("RandomNormalLike", {x}));
  g.add_output(g.add_op("RandomNormalLike", {x}));
  infer_shapes(g);
  EXPECT_FALSE(share_common_subexpressions(g));
}

TEST(CommonSubexpressions, TwoOutputsKeepTwoNames) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2}));
  g.add_output(g.add_op("Relu", {x}, {}, "a"));
  g.add_output(g.add_op("Relu", {x}, {}, "b"));
  share_common_subexpressions(g);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "a");
  EXPECT_EQ(g.value(g.outputs()[1]).name, "b");
  EXPECT_NO_THROW(verify(g));
}

// --- constants ---------------------------------------------------------------------------------

// Knows Add of float32 scalars.
std::vector<Data> add_scalars(const Graph& g) {
  const Node& n = g.node(g.nodes().at(0));
  if (n.op != "Add") throw Error(ErrorCode::kUnsupported, "only Add");
  const float sum =
      g.constant(n.inputs[0])->data<float>()[0] + g.constant(n.inputs[1])->data<float>()[0];
  return {Data(Tensor::scalar(sum))};
}

TEST(FoldConstants, ComputesWhatDependsOnConstantsOnly) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2}));
  const ValueId one = g.add_constant("one", Tensor::scalar(1.0F));
  const ValueId two = g.add_op("Add", {one, one}, {}, "two");
  const ValueId three = g.add_op("Add", {two, one}, {}, "three");
  g.add_output(g.add_op("Mul", {x, three}));
  infer_shapes(g);
  EXPECT_TRUE(fold_constants(g, add_scalars));
  EXPECT_EQ(ops(g), std::vector<std::string>{"Mul"});
  EXPECT_EQ(g.constant(three)->data<float>()[0], 3.0F);
  EXPECT_NO_THROW(verify(g));
}

TEST(FoldConstants, ViewsOfAConstantShareItsElements) {
  Graph g;
  const ValueId x = g.add_input("x", f32({3, 2}));
  const ValueId w = floats(g, "w", {2, 2}, {1, 2, 3, 4});
  const ValueId first = g.add_op("Identity", {w});
  const ValueId second = g.add_op("Identity", {g.add_op("Identity", {w})});
  const ValueId row = g.add_op("Reshape", {first, ints(g, "shape", {4})}, {}, "row");
  g.add_output(g.add_op("MatMul", {g.add_op("MatMul", {x, first}), second}));
  g.add_output(g.add_op("Neg", {row}));
  infer_shapes(g);
  EXPECT_TRUE(fold_constants(g, add_scalars));
  EXPECT_EQ(ops(g), (std::vector<std::string>{"MatMul", "MatMul", "Neg"}));
  EXPECT_EQ(g.uses(w).size(), 2U);
  EXPECT_EQ(g.constant(row)->raw(), g.constant(w)->raw());
  EXPECT_NO_THROW(verify(g));
}

TEST(FoldConstants, LeavesWhatTheEvaluatorRefusesAndWhatIsAnOutput) {
  Graph g;
  const ValueId one = g.add_constant("one", Tensor::scalar(1.0F));
  g.add_output(g.add_op("Neg", {g.add_op("Exp", {one})}));
  g.add_output(g.add_op("Add", {one, one}));
  infer_shapes(g);
  EXPECT_FALSE(fold_constants(g, add_scalars));
}

TEST(FoldConstants, DequantizesOperandsOfArithmeticAndNoWeights) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 2}));
  const ValueId scale = g.add_constant("scale", Tensor::scalar(0.5F));
  const auto bytes = [&](const char* name) {
    return g.add_constant(name, Tensor::allocate(DType::kInt8, {2, 2}));
  };
  const auto dequantize = [&](ValueId q, const char* name) {
    return g.add_op("DequantizeLinear", {q, scale}, {}, name);
  };
  std::vector<std::string> folded;
  const auto evaluate = [&](const Graph& single) -> std::vector<Data> {
    const Node& node = single.node(single.nodes().at(0));
    folded.push_back(single.value(node.outputs[0]).name);
    if (node.op != "DequantizeLinear") throw Error(ErrorCode::kUnsupported, "only these");
    return {Data(Tensor::allocate(DType::kFloat32, {2, 2}))};
  };
  const ValueId bias = dequantize(bytes("b"), "bias");
  g.add_output(g.add_op("Add", {x, g.add_op("Transpose", {bias})}));
  // A weight, a table, the operand of a quantised sum, and what is both operand and weight.
  g.add_output(g.add_op("MatMul", {x, dequantize(bytes("w"), "weight")}));
  const ValueId row = g.add_input("row", Type::tensor(DType::kInt64, Dims{}));
  g.add_output(g.add_op("Gather", {dequantize(bytes("t"), "table"), row}));
  const ValueId other = g.add_input("other", Type::tensor(DType::kInt8, Dims{2, 2}));
  g.add_output(g.add_op("Add", {dequantize(other, "y"), dequantize(bytes("c"), "quantised")}));
  const ValueId both = dequantize(bytes("d"), "both");
  g.add_output(g.add_op("Mul", {x, both}));
  g.add_output(g.add_op("MatMul", {x, both}));
  infer_shapes(g);
  EXPECT_TRUE(fold_constants(g, evaluate));
  ASSERT_FALSE(folded.empty());
  EXPECT_EQ(folded.front(), "bias_folded");
  const auto left = ops(g);
  EXPECT_EQ(std::count(left.begin(), left.end(), "DequantizeLinear"), 5);
  EXPECT_NO_THROW(verify(g));
}

TEST(FoldConstants, AllGrowthTogetherIsBounded) {
  Graph g;
  int made = 0;
  const auto make = [&](const Graph&) -> std::vector<Data> {
    ++made;
    return {Data(Tensor::allocate(DType::kFloat32, {4096, 1024}))};
  };
  const ValueId one = g.add_constant("one", Tensor::scalar(1.0F));
  for (int i = 0; i < 100; ++i) {  // 16 MB each
    g.add_output(g.add_op("Neg", {g.add_op("Expand", {one, ints(g, "shape", {4096, 1024})})}));
  }
  infer_shapes(g);
  run_passes(g, {.evaluate = make, .dump_dir = {}});
  EXPECT_EQ(made, 4);  // 64 MB over all rounds
}

TEST(FoldConstants, WhatReplacesAConstantIsNoGrowth) {
  Graph g;
  const auto transpose = [](const Graph& one) -> std::vector<Data> {
    const Type& type = one.type(one.outputs()[0]);
    return {Data(Tensor::allocate(type.dtype, *type.static_dims()))};
  };
  for (int i = 0; i < 8; ++i) {  // 32 MB each
    const ValueId weights = g.add_constant("w", Tensor::allocate(DType::kFloat32, {4096, 2048}));
    const ValueId turned =
        g.add_op("Transpose", {weights}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    g.add_output(g.add_op("Neg", {g.add_op("Abs", {turned})}));
  }
  infer_shapes(g);
  EXPECT_TRUE(fold_constants(g, transpose));
  EXPECT_EQ(g.node_count(), 8U);
}

TEST(FoldConstants, AConstantThatIsReadTwiceCountsOnce) {
  Graph g;
  const auto join = [](const Graph& one) -> std::vector<Data> {
    const Type& type = one.type(one.outputs()[0]);
    return {Data(Tensor::allocate(type.dtype, *type.static_dims()))};
  };
  ValueId v = g.add_constant("v", Tensor::allocate(DType::kFloat32, {1024}));
  for (int i = 0; i < 30; ++i) {
    v = g.add_op("Concat", {v, v}, {{"axis", std::int64_t{0}}});
  }
  g.add_output(g.add_op("Neg", {v}));
  infer_shapes(g);
  EXPECT_TRUE(fold_constants(g, join));
  std::size_t largest = 0;
  for (const ValueId c : g.constants()) largest = std::max(largest, g.constant(c)->bytes());
  EXPECT_LE(largest, std::size_t{16} << 20);
}

TEST(FoldConstants, DoesNotInflateTheModelOrUndoQuantisation) {
  Graph g;
  int asked = 0;
  const auto count = [&](const Graph&) -> std::vector<Data> {
    ++asked;
    throw Error(ErrorCode::kUnsupported, "only counts");
  };
  const ValueId one = g.add_constant("one", Tensor::scalar(1.0F));
  const ValueId big = g.add_op("Expand", {one, ints(g, "shape", {4096, 1024, 2})});
  const ValueId q = g.add_constant(
      "q", Tensor::from<std::uint8_t>(DType::kUInt8, {2, 1}, std::vector<std::uint8_t>{3, 4}));
  const ValueId dequantised = g.add_op("DequantizeLinear", {q, one});
  g.add_output(g.add_op("MatMul", {big, dequantised}));
  infer_shapes(g);
  EXPECT_FALSE(fold_constants(g, count));
  EXPECT_EQ(asked, 0);
}

TEST(SinkConstants, SubgraphsGetTheConstantsTheyCapture) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId w = floats(g, "w", {2}, {1, 2});
  auto body = std::make_shared<Graph>("body");
  body->add_output(body->add_op("Relu", {body->add_capture(w, "w", f32({2}))}));
  g.add_output(g.add_op("If", {c},
                        {{"then_branch", body}, {"else_branch", std::make_shared<Graph>(*body)}}));
  infer_shapes(g);
  EXPECT_TRUE(sink_constants(g));
  EXPECT_NO_THROW(verify(g));
  EXPECT_TRUE(g.uses(w).empty());
  for (const Graph* branch : Graph::subgraphs(g.node(g.nodes()[0]))) {
    ASSERT_EQ(branch->constants().size(), 1U);
    EXPECT_EQ(branch->constant(branch->constants()[0])->raw(), g.constant(w)->raw());
  }
}

TEST(InlineConstantIfs, TakesTheBranchThatRuns) {
  for (const bool taken : {true, false}) {
    Graph g;
    const ValueId x = g.add_op("Neg", {g.add_input("x", f32({2}))});
    const ValueId c = g.add_constant(
        "c", Tensor::from<std::uint8_t>(DType::kBool, {1}, std::vector<std::uint8_t>{taken}));
    const auto branch = [&](const char* op) {
      auto body = std::make_shared<Graph>("body");
      const ValueId inner = body->add_capture(x, "inner", f32({2}));
      body->add_output(op == nullptr ? inner : body->add_op(op, {inner}));
      return body;
    };
    g.add_output(g.add_op(
        "If", {c}, {{"then_branch", branch("Relu")}, {"else_branch", branch(nullptr)}}, "y"));
    infer_shapes(g);
    EXPECT_TRUE(inline_constant_ifs(g));
    EXPECT_NO_THROW(verify(g));
    EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
    EXPECT_EQ(ops(g),
              taken ? (std::vector<std::string>{"Neg", "Relu"}) : std::vector<std::string>{"Neg"});
  }
}

// --- convolution and batch normalisation -------------------------------------------------------

struct Norm {
  Floats scale, bias, mean, variance;
};

ValueId add_norm(Graph& g, ValueId x, const Norm& n) {
  const Dims c{static_cast<std::int64_t>(n.scale.size())};
  return g.add_op("BatchNormalization",
                  {x, floats(g, "scale", c, n.scale), floats(g, "bias", c, n.bias),
                   floats(g, "mean", c, n.mean), floats(g, "variance", c, n.variance)},
                  {{"epsilon", 0.0F}});
}

TEST(FoldConvBatchNorm, GoesIntoTheWeightsInFront) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 1, 2, 2}));
  const ValueId conv =
      g.add_op("Conv", {x, floats(g, "w", {2, 1, 1, 1}, {3, 5}), floats(g, "b", {2}, {1, 2})});
  g.add_output(add_norm(g, conv, {{2, 1}, {10, 20}, {1, 4}, {4, 16}}));
  infer_shapes(g);
  EXPECT_TRUE(fold_conv_batch_norm(g));
  EXPECT_NO_THROW(verify(g));
  ASSERT_EQ(ops(g), std::vector<std::string>{"Conv"});
  const Node& n = g.node(g.nodes()[0]);
  // s = scale / √variance = {1, 1/4}; t = bias − mean·s = {9, 19}
  EXPECT_EQ(values(*g.constant(n.inputs[1])), (Floats{3, 1.25F}));
  EXPECT_EQ(values(*g.constant(n.inputs[2])), (Floats{1 * 1 + 9, 2 * 0.25F + 19}));
}

TEST(FoldConvBatchNorm, GoesIntoTheWeightsBehindPerGroup) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 2, 2, 2}));
  const ValueId norm = add_norm(g, x, {{1, 2}, {3, 5}, {0, 0}, {1, 1}});
  g.add_output(g.add_op("Conv", {norm, floats(g, "w", {2, 1, 1, 2}, {1, 10, 100, 1000})},
                        {{"group", std::int64_t{2}}}));
  infer_shapes(g);
  EXPECT_TRUE(fold_conv_batch_norm(g));
  ASSERT_EQ(ops(g), std::vector<std::string>{"Conv"});
  const Node& n = g.node(g.nodes()[0]);
  EXPECT_EQ(values(*g.constant(n.inputs[1])), (Floats{1, 10, 200, 2000}));
  EXPECT_EQ(values(*g.constant(n.inputs[2])), (Floats{3 * 11, 5 * 1100}));
  EXPECT_NO_THROW(verify(g));
}

TEST(FoldConvBatchNorm, KnowsTheLayoutOfConvTranspose) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 1, 2, 2}));
  const ValueId conv = g.add_op("ConvTranspose", {x, floats(g, "w", {1, 2, 1, 1}, {3, 5})});
  g.add_output(add_norm(g, conv, {{2, 10}, {0, 1}, {0, 0}, {1, 1}}));
  infer_shapes(g);
  EXPECT_TRUE(fold_conv_batch_norm(g));
  const Node& n = g.node(g.nodes()[0]);
  EXPECT_EQ(values(*g.constant(n.inputs[1])), (Floats{6, 50}));
  EXPECT_EQ(values(*g.constant(n.inputs[2])), (Floats{0, 1}));
}

TEST(FoldConvBatchNorm, LeavesPaddedShiftsAndSharedValues) {
  Graph padded;
  ValueId x = padded.add_input("x", f32({1, 1, 2, 2}));
  ValueId norm = add_norm(padded, x, {{1}, {3}, {0}, {1}});
  padded.add_output(padded.add_op("Conv", {norm, floats(padded, "w", {1, 1, 1, 1}, {1})},
                                  {{"pads", Ints{1, 1, 1, 1}}}));
  infer_shapes(padded);
  EXPECT_FALSE(fold_conv_batch_norm(padded));
  Graph shared;
  x = shared.add_input("x", f32({1, 1, 2, 2}));
  const ValueId conv = shared.add_op("Conv", {x, floats(shared, "w", {1, 1, 1, 1}, {1})});
  shared.add_output(add_norm(shared, conv, {{1}, {3}, {0}, {1}}));
  shared.add_output(shared.add_op("Relu", {conv}));
  infer_shapes(shared);
  EXPECT_FALSE(fold_conv_batch_norm(shared));
}

TEST(FoldConvBatchNorm, TakesScalesAndShiftsBehind) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 1, 2, 2}));
  ValueId v = g.add_op("Conv", {x, floats(g, "w", {2, 1, 1, 1}, {3, 5})});
  v = g.add_op("Mul", {floats(g, "m", {2, 1, 1}, {2, 4}), v});
  v = g.add_op("Sub", {v, g.add_constant("s", Tensor::scalar(1.0F))});
  v = g.add_op("Div", {v, floats(g, "d", {1, 2, 1, 1}, {2, 8})});
  g.add_output(g.add_op("Add", {v, floats(g, "a", {2, 1, 1}, {10, 20})}));
  infer_shapes(g);
  while (fold_conv_batch_norm(g)) {
  }
  ASSERT_EQ(ops(g), std::vector<std::string>{"Conv"});
  const Node& n = g.node(g.nodes()[0]);
  EXPECT_EQ(values(*g.constant(n.inputs[1])), (Floats{3, 2.5F}));
  EXPECT_EQ(values(*g.constant(n.inputs[2])), (Floats{9.5F, 19.875F}));
  EXPECT_NO_THROW(verify(g));
}

TEST(FoldConvBatchNorm, AScaleGoesIntoAPaddedConvolutionAndAShiftDoesNot) {
  for (const char* op : {"Mul", "Add"}) {
    Graph g;
    const ValueId x = g.add_input("x", f32({1, 1, 2, 2}));
    const ValueId v = g.add_op(op, {x, g.add_constant("c", Tensor::scalar(3.0F))});
    g.add_output(g.add_op("Conv", {v, floats(g, "w", {1, 1, 3, 3}, Floats(9, 1))},
                          {{"pads", Ints{1, 1, 1, 1}}}));
    infer_shapes(g);
    EXPECT_EQ(fold_conv_batch_norm(g), std::string(op) == "Mul");
  }
}

TEST(FoldConvBatchNorm, TheFactorOfAGeluStays) {
  for (const char* gate : {"Erf", "Tanh", "Sigmoid"}) {
    Graph g;
    const ValueId x = g.add_input("x", f32({1, 1, 2, 2}));
    ValueId v = g.add_op(gate, {x});
    v = g.add_op("Add", {v, g.add_constant("one", Tensor::scalar(1.0F))});
    v = g.add_op("Mul", {x, v});
    v = g.add_op("Mul", {v, g.add_constant("half", Tensor::scalar(0.5F))});
    g.add_output(g.add_op("Conv", {v, floats(g, "w", {1, 1, 1, 1}, {3})}));
    infer_shapes(g);
    EXPECT_EQ(fold_conv_batch_norm(g), std::string(gate) == "Sigmoid") << gate;
  }
}

TEST(FoldConvBatchNorm, BatchNormalizationTakesWhatFollows) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 2, 2}));
  ValueId v = add_norm(g, x, {{1, 2}, {3, 5}, {0, 0}, {1, 1}});
  v = g.add_op("Mul", {v, floats(g, "m", {2, 1}, {10, 100})});
  g.add_output(g.add_op("Add", {v, floats(g, "a", {1, 2, 1}, {1, 2})}));
  infer_shapes(g);
  while (fold_conv_batch_norm(g)) {
  }
  ASSERT_EQ(ops(g), std::vector<std::string>{"BatchNormalization"});
  const Node& n = g.node(g.nodes()[0]);
  EXPECT_EQ(values(*g.constant(n.inputs[1])), (Floats{10, 200}));
  EXPECT_EQ(values(*g.constant(n.inputs[2])), (Floats{31, 502}));
}

TEST(FoldConvBatchNorm, OtherBroadcastsStay) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 1, 2, 2}));
  const ValueId v = g.add_op("Conv", {x, floats(g, "w", {2, 1, 1, 1}, {3, 5})});
  g.add_output(g.add_op("Mul", {v, floats(g, "columns", {2}, {2, 4})}));
  const ValueId u = g.add_op("Conv", {x, floats(g, "u", {2, 1, 1, 1}, {3, 5})});
  g.add_output(g.add_op("Add", {u, floats(g, "deeper", {1, 1, 1, 1, 1}, {2})}));
  infer_shapes(g);
  EXPECT_FALSE(fold_conv_batch_norm(g));
}

TEST(FoldPads, ZerosBecomePaddingOfTheConvolution) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 1, 4, 4}));
  const ValueId padded = g.add_op("Pad", {x, ints(g, "pads", {0, 0, 1, 2, 0, 0, 3, 4})});
  g.add_output(g.add_op("Conv", {padded, floats(g, "w", {1, 1, 3, 3}, Floats(9, 1))},
                        {{"pads", Ints{1, 0, 0, 0}}}));
  infer_shapes(g);
  const Type before = g.type(g.outputs()[0]);
  EXPECT_TRUE(fold_pads(g));
  infer_shapes(g, /*reset=*/true);
  ASSERT_EQ(ops(g), std::vector<std::string>{"Conv"});
  EXPECT_EQ(g.node(g.nodes()[0]).attr_ints("pads"), (Ints{2, 2, 3, 4}));
  EXPECT_EQ(g.type(g.outputs()[0]), before);
}

TEST(FoldPads, OtherPadsStay) {
  const auto refused = [](const Ints& pads, Attributes attributes, float value, const char* op) {
    Graph g;
    const ValueId x = g.add_input("x", f32({1, 1, 4, 4}));
    const ValueId padded =
        g.add_op("Pad", {x, ints(g, "pads", pads), g.add_constant("v", Tensor::scalar(value))},
                 std::move(attributes));
    if (std::string(op) == "Conv") {
      g.add_output(
          g.add_op(op, {padded, floats(g, "w", {1, pads[1] + 1, 1, 1},
                                       Floats(static_cast<std::size_t>(pads[1] + 1), 1))}));
    } else {
      g.add_output(g.add_op(op, {padded}, {{"kernel_shape", Ints{2, 2}}}));
    }
    infer_shapes(g);
    return !fold_pads(g);
  };
  const Ints pads{0, 0, 1, 1, 0, 0, 1, 1};
  EXPECT_FALSE(refused(pads, {}, 0, "Conv"));
  EXPECT_TRUE(refused(pads, {}, 1, "Conv"));
  EXPECT_TRUE(refused(pads, {{"mode", std::string("edge")}}, 0, "Conv"));
  EXPECT_TRUE(refused({0, 1, 0, 0, 0, 0, 0, 0}, {}, 0, "Conv"));
  EXPECT_TRUE(refused({0, 0, -1, 0, 0, 0, 0, 0}, {}, 0, "Conv"));
  EXPECT_TRUE(refused(pads, {}, 0, "MaxPool"));
}

// LayerNormalization over the last axis of float32[rows, 3, 3], with parameters of these shapes;
// also its mean is an output.
Graph normalization(const Shape& scale, const Shape& bias) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("rows"), 3, 3}));
  const ValueId s = g.add_input("s", Type::tensor(DType::kFloat32, scale));
  const ValueId b = g.add_input("b", Type::tensor(DType::kFloat32, bias));
  const NodeId node = g.add_node("", "LayerNormalization", {x, s, b}, {"y", "mean"},
                                 {{"axis", std::int64_t{2}}}, "norm");
  for (const ValueId v : g.node(node).outputs) g.add_output(v);
  infer_shapes(g);
  return g;
}

TEST(SplitRowScales, WhatBroadcastsToTheInputIsAppliedBehind) {
  Graph g = normalization({3, 1}, {Dim("rows"), 1, 3});
  const Type before = g.type(g.outputs()[0]);
  EXPECT_TRUE(split_row_scales(g));
  infer_shapes(g, /*reset=*/true);
  EXPECT_EQ(ops(g), (std::vector<std::string>{"LayerNormalization", "Mul", "Add"}));
  EXPECT_EQ(g.type(g.outputs()[0]), before);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
  EXPECT_EQ(g.value(g.outputs()[1]).name, "mean");
  EXPECT_FALSE(split_row_scales(g));
}

TEST(SplitRowScales, RowsAndWhatMayNotFitStay) {
  const auto stays = [](const Shape& scale, const Shape& bias) {
    Graph g = normalization(scale, bias);
    return !split_row_scales(g);
  };
  EXPECT_TRUE(stays({3}, {1, 1, 3}));
  EXPECT_TRUE(stays({7, 1, 3}, {3}));  // the rows may be others
  EXPECT_TRUE(stays({Dim("n")}, {3}));
  EXPECT_TRUE(stays({2, 1, 1, 3}, {3}));
  EXPECT_FALSE(stays({1}, {3}));
}

// --- the manager -------------------------------------------------------------------------------

TEST(PassManager, PassesHelpEachOtherAndDumpWhatTheyDid) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "xrt_passes_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 3}));
  const ValueId shape = g.add_op("Shape", {g.add_op("Identity", {x})});
  g.add_output(g.add_op("Reshape", {g.add_op("Relu", {x}), shape}, {}, "y"));
  run_passes(g, {.evaluate = add_scalars, .dump_dir = folder});
  EXPECT_EQ(ops(g), std::vector<std::string>{"Relu"});
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
  EXPECT_NO_THROW(verify(g));
  EXPECT_TRUE(fs::exists(fs::path(folder) / "000_before.txt"));
  EXPECT_TRUE(fs::exists(fs::path(folder) / "002_fold_shape_subgraphs.txt"));
  fs::remove_all(folder);
}

TEST(PassManager, StopsEvenIfAPassNeverSettles) {
  Graph g;
  g.add_output(g.add_op("Relu", {g.add_input("x", f32({2}))}));
  int runs = 0;
  const Pass restless{"restless", [&](Graph&, const PassOptions&) {
                        ++runs;
                        return true;
                      }};
  run_passes(g, {}, {restless});
  EXPECT_LE(runs, 16);
}

// Loops over `steps` values that start as float32[2] each; body i's result is what `make` says.
struct LoopUnderTest {
  Graph graph{"g"};
  std::shared_ptr<Graph> body = std::make_shared<Graph>("body");
  std::vector<ValueId> read, written;
  NodeId node;

  explicit LoopUnderTest(std::size_t states) {
    body->add_input("i", Type::tensor(DType::kInt64, Shape{}));
    const ValueId go_on = body->add_input("go_on", Type::tensor(DType::kBool, Shape{}));
    for (std::size_t i = 0; i < states; ++i) {
      read.push_back(body->add_input("state", Type::tensor(DType::kFloat32)));
    }
    body->add_output(body->add_op("Identity", {go_on}));
  }
  void finish() {
    for (const ValueId v : written) body->add_output(v);
    std::vector<ValueId> inputs = {graph.add_input("n", Type::tensor(DType::kInt64, Shape{})),
                                   ValueId{}};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < read.size(); ++i) {
      inputs.push_back(graph.add_input("x", Type::tensor(DType::kFloat32, Shape{2})));
      names.push_back("y" + std::to_string(i));
    }
    node = graph.add_node("", "Loop", inputs, names, {{"body", body}});
    for (const ValueId v : graph.node(node).outputs) graph.add_output(v);
    infer_shapes(graph);
  }
  std::string type_of_result(std::size_t i) const {
    return to_string(graph.type(graph.node(node).outputs[i]));
  }
};

TEST(FixLoopShapes, WhatKeepsItsShapeIsStatic) {
  LoopUnderTest loop(1);
  loop.written = {loop.body->add_op("Relu", {loop.read[0]})};
  loop.finish();
  EXPECT_EQ(loop.type_of_result(0), "float32[*]");
  EXPECT_TRUE(fix_loop_shapes(loop.graph));
  EXPECT_EQ(loop.type_of_result(0), "float32[2]");
  infer_shapes(loop.graph);
  EXPECT_EQ(loop.type_of_result(0), "float32[2]");
  EXPECT_FALSE(fix_loop_shapes(loop.graph));
}

TEST(FixLoopShapes, WhatGrowsAndWhatTakesItsShapeAreNot) {
  LoopUnderTest loop(3);
  // Grows; takes the shape of what grows, one iteration later; keeps its own.
  loop.written = {
      loop.body->add_op("Concat", {loop.read[0], loop.read[0]}, {{"axis", std::int64_t{0}}}),
      loop.body->add_op("Neg", {loop.read[0]}), loop.body->add_op("Abs", {loop.read[2]})};
  loop.finish();
  EXPECT_TRUE(fix_loop_shapes(loop.graph));
  EXPECT_EQ(loop.type_of_result(0), "float32[*]");
  EXPECT_EQ(loop.type_of_result(1), "float32[*]");
  EXPECT_EQ(loop.type_of_result(2), "float32[2]");
}

TEST(FixLoopShapes, ValuesThatChangePlacesKeepTheirShapesTogether) {
  LoopUnderTest loop(2);
  loop.written = {loop.body->add_op("Neg", {loop.read[1]}),
                  loop.body->add_op("Abs", {loop.read[0]})};
  loop.finish();
  EXPECT_TRUE(fix_loop_shapes(loop.graph));
  EXPECT_EQ(loop.type_of_result(0), "float32[2]");
  EXPECT_EQ(loop.type_of_result(1), "float32[2]");
}

TEST(CaptureLoopInvariants, WhatIsHandedOnUnchangedIsCaptured) {
  LoopUnderTest loop(3);
  Graph& body = *loop.body;
  const ValueId same = body.add_op("Identity", {body.add_op("Identity", {loop.read[1]})});
  const ValueId sum = body.add_op("Add", {loop.read[0], loop.read[1]});
  loop.written = {sum, same, body.add_op("Neg", {loop.read[2]})};
  loop.finish();
  EXPECT_TRUE(capture_loop_invariants(loop.graph));
  EXPECT_NO_THROW(verify(loop.graph));
  ASSERT_EQ(ops(loop.graph), (std::vector<std::string>{"Identity", "Loop"}));
  const Node& left = loop.graph.node(loop.graph.topological_order()[1]);
  EXPECT_EQ(left.inputs.size(), 4U);
  EXPECT_EQ(left.attr_graph("body")->captures().size(), 1U);
  EXPECT_EQ(left.attr_graph("body")->outputs().size(), 3U);
  // The result of what never changes is what it starts with; the names of all are as they were.
  std::vector<std::string> names;
  for (const ValueId v : loop.graph.outputs()) names.push_back(loop.graph.value(v).name);
  EXPECT_EQ(names, (std::vector<std::string>{"y0", "y1", "y2"}));
  const Node& identity = loop.graph.node(loop.graph.topological_order()[0]);
  EXPECT_EQ(identity.inputs[0], loop.graph.inputs()[2]);
  EXPECT_FALSE(capture_loop_invariants(loop.graph));
}

TEST(CaptureLoopInvariants, ALoopThatChangesNothingIsGone) {
  LoopUnderTest loop(1);
  loop.written = {loop.body->add_op("Identity", {loop.read[0]})};
  loop.finish();
  EXPECT_TRUE(capture_loop_invariants(loop.graph));
  EXPECT_EQ(ops(loop.graph), std::vector<std::string>{"Identity"});
  EXPECT_NO_THROW(verify(loop.graph));
}

TEST(CaptureLoopInvariants, ValuesThatChangePlacesAreCarried) {
  LoopUnderTest loop(2);
  loop.written = {loop.body->add_op("Identity", {loop.read[1]}),
                  loop.body->add_op("Identity", {loop.read[0]})};
  loop.finish();
  EXPECT_FALSE(capture_loop_invariants(loop.graph));
}

}  // namespace
}  // namespace xrt
