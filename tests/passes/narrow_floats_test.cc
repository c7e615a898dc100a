// SPDX-License-Identifier: Apache-2.0
#include "passes/narrow_floats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ir/verifier.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"

namespace xrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Type f32(const Dims& dims) { return Type::tensor(DType::kFloat32, dims); }

ValueId weights(Graph& g, const std::string& name, const Dims& dims, float value) {
  Tensor tensor = Tensor::allocate(DType::kFloat32, dims);
  for (std::int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = value;
  return g.add_constant(name, tensor);
}

// A node's name and the type that it gives, in order; casts are left out.
std::vector<std::string> types(const Graph& g) {
  std::vector<std::string> all;
  for (const NodeId id : g.topological_order()) {
    if (g.node(id).op == "Cast") continue;
    const DType dtype = g.type(g.node(id).outputs[0]).dtype;
    all.push_back(g.node(id).name + ":" + std::string(to_string(dtype)));
  }
  return all;
}

// Ready for passes: in canonical form, with types.
Graph prepared(Graph g) {
  infer_shapes(g);
  canonicalize(g);
  return g;
}

// x·W → Relu → Softmax → ·W
Graph network(float weight = 0.5F) {
  Graph g("network");
  const ValueId x = g.add_input("x", f32({2, 4}));
  const ValueId w = weights(g, "w", {4, 4}, weight);
  const auto node = [&](const std::string& op, std::vector<ValueId> inputs,
                        const std::string& name) {
    return g.node(g.add_node("", op, std::move(inputs), {name + "_out"}, {}, name)).outputs[0];
  };
  const ValueId first = node("MatMul", {x, w}, "first");
  const ValueId relu = node("Relu", {first}, "relu");
  const ValueId softmax = node("Softmax", {relu}, "softmax");
  g.add_output(node("MatMul", {softmax, w}, "last"));
  g.add_output(relu);
  return prepared(std::move(g));
}

TEST(NarrowFloats, ProductsAndWhatFollowsThemAreHalf) {
  const NarrowedGraph narrowed = narrow_floats(network(), DType::kFloat16);
  EXPECT_NO_THROW(verify(narrowed.graph));
  EXPECT_THAT(types(narrowed.graph),
              ElementsAre("first:float16", "relu:float16", "softmax:float32", "last:float16"));
  EXPECT_EQ(narrowed.nodes, 3U);
  EXPECT_TRUE(narrowed.overflows.empty());
}

TEST(NarrowFloats, InputsAndOutputsKeepNamesAndTypes) {
  const Graph before = network();
  const Graph after = narrow_floats(before, DType::kBFloat16).graph;
  ASSERT_EQ(after.outputs().size(), before.outputs().size());
  for (std::size_t i = 0; i < before.outputs().size(); ++i) {
    EXPECT_EQ(after.value(after.outputs()[i]).name, before.value(before.outputs()[i]).name);
    EXPECT_EQ(after.type(after.outputs()[i]), before.type(before.outputs()[i]));
  }
  EXPECT_EQ(after.type(after.inputs()[0]), before.type(before.inputs()[0]));
}

TEST(NarrowFloats, AWeightThatTwoProductsReadIsRoundedOnce) {
  const Graph after = narrow_floats(network(), DType::kFloat16).graph;
  ASSERT_EQ(after.constants().size(), 1U);
  EXPECT_EQ(after.constant(after.constants()[0])->dtype(), DType::kFloat16);
}

TEST(NarrowFloats, AWeightOutsideOfTheRangeIsNamed) {
  const NarrowedGraph narrowed = narrow_floats(network(1e5F), DType::kFloat16);
  EXPECT_EQ(narrowed.nodes, 0U);
  ASSERT_EQ(narrowed.overflows.size(), 2U);
  EXPECT_THAT(narrowed.overflows[0], HasSubstr("node 'first': 'w' holds 100000"));
  // bfloat16 has the range of float32, but for what rounds up beyond it.
  EXPECT_EQ(narrow_floats(network(1e5F), DType::kBFloat16).nodes, 3U);
  EXPECT_EQ(narrow_floats(network(std::numeric_limits<float>::max()), DType::kBFloat16).nodes, 0U);
  // An infinity stays one.
  EXPECT_EQ(narrow_floats(network(std::numeric_limits<float>::infinity()), DType::kFloat16).nodes,
            3U);
}

TEST(NarrowFloats, NamedNodesStayInFloat32) {
  const Graph after = narrow_floats(network(), DType::kFloat16, {"first"}).graph;
  EXPECT_THAT(types(after),
              ElementsAre("first:float32", "relu:float32", "softmax:float32", "last:float16"));
}

TEST(NarrowFloats, ANumberThatWouldBecomeZeroKeepsItsNodeInFloat32) {
  for (const auto& [value, dtype] : {std::pair(1e-9F, "float32"), std::pair(0.5F, "float16")}) {
    Graph g;
    const ValueId x = g.add_input("x", f32({2, 4}));
    const ValueId product = g.add_op("MatMul", {x, weights(g, "w", {4, 4}, 1)});
    const NodeId sum =
        g.add_node("", "Add", {product, weights(g, "epsilon", {}, value)}, {"sum"}, {}, "sum");
    g.add_output(g.add_op("Exp", {g.node(sum).outputs[0]}));
    const Graph after = narrow_floats(prepared(std::move(g)), DType::kFloat16).graph;
    EXPECT_THAT(types(after), ::testing::Contains("sum:" + std::string(dtype)));
  }
}

TEST(NarrowFloats, SumsOfHalfAndFloat32AreFloat32) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 4}));
  const ValueId product = g.add_op("MatMul", {x, weights(g, "w", {4, 4}, 1)});
  g.add_node("", "Add", {product, x}, {"sum"}, {}, "sum");
  g.add_output(*g.find_value("sum"));
  const Graph after = narrow_floats(prepared(std::move(g)), DType::kFloat16).graph;
  EXPECT_THAT(types(after), ::testing::Contains("sum:float32"));
}

TEST(NarrowFloats, WhatIsComputedOnBytesStays) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kUInt8, Dims{2, 4}));
  const ValueId scale = weights(g, "scale", {}, 0.1F);
  const ValueId real = g.add_op("DequantizeLinear", {x, scale});
  g.add_output(g.add_op("MatMul", {real, weights(g, "w", {4, 4}, 1)}));
  EXPECT_EQ(narrow_floats(prepared(std::move(g)), DType::kFloat16).nodes, 0U);
}

TEST(NarrowFloats, BodiesReadWhatIsCastBack) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 4}));
  const ValueId condition = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId product = g.add_op("MatMul", {x, weights(g, "w", {4, 4}, 1)});
  infer_shapes(g);
  const auto branch = [&](const std::string& op) {
    auto body = std::make_shared<Graph>(op);
    const ValueId inner = body->add_capture(product, "inner", g.type(product));
    body->add_output(body->add_op(op, {inner}));
    return body;
  };
  g.add_output(g.add_op("If", {condition},
                        {{"then_branch", branch("Exp")}, {"else_branch", branch("Neg")}}));
  const NarrowedGraph narrowed = narrow_floats(prepared(std::move(g)), DType::kFloat16);
  EXPECT_EQ(narrowed.nodes, 1U);
  EXPECT_NO_THROW(verify(narrowed.graph));
}

}  // namespace
}  // namespace xrt
