// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/deciding_operands.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "ops/schema.h"
#include "ops/sizes/open_sizes.h"
#include "ops/sizes/size_rules.h"

namespace xrt {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

bool is_refused(std::vector<std::int64_t> values, Decides decides,
                std::vector<std::int64_t> sizes = {}) {
  return refusal(Tensor::from_int64(values), decides, sizes).has_value();
}

TEST(DecidingOperands, AreOperandsOfOpsThatThereAre) {
  std::size_t found = 0;
  for (const OpInfo& info : all_ops("")) {
    Node node;
    node.op = info.name;
    for (const DecidingOperand& operand : deciding_operands(node)) {
      EXPECT_LT(operand.operand, static_cast<std::size_t>(info.max_inputs)) << info.name;
      ++found;
    }
  }
  EXPECT_GT(found, 50U);
}

TEST(DecidingOperands, IndicesCountFromEitherEnd) {
  EXPECT_FALSE(is_refused({-4, 3}, Decides::kIndex, {4}));
  EXPECT_TRUE(is_refused({4}, Decides::kIndex, {4}));
  EXPECT_TRUE(is_refused({-5}, Decides::kIndex, {4}));
  EXPECT_TRUE(is_refused({0}, Decides::kIndex, {0}));
  EXPECT_TRUE(is_refused({-1}, Decides::kRow, {4}));
  EXPECT_FALSE(is_refused({3, 2}, Decides::kCoordinates, {4, 3}));
  EXPECT_TRUE(is_refused({2, 3}, Decides::kCoordinates, {4, 3}));
}

TEST(DecidingOperands, AxesAreThoseOfTheTensorOrOfTheResult) {
  EXPECT_FALSE(is_refused({-2, 1}, Decides::kAxes, {2}));
  EXPECT_TRUE(is_refused({2}, Decides::kAxes, {2}));
  EXPECT_FALSE(is_refused({9}, Decides::kAxes));  // of a rank that nobody knows
  const auto rank_for = [](const char* op, const Dims& result) {
    Graph g;
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{3, 4}));
    const ValueId axis = g.add_input("axis", Type::tensor(DType::kInt64, Dims{1}));
    const NodeId node = g.add_node("", op, {x, axis}, {"y"});
    g.set_type(g.node(node).outputs[0], Type::tensor(DType::kFloat32, result));
    return deciding_sizes(g, g.node(node), deciding_operands(g.node(node))[0]);
  };
  EXPECT_EQ(rank_for("CumSum", {3, 4}), std::vector<std::int64_t>{2});
  EXPECT_EQ(rank_for("Unsqueeze", {3, 1, 4}), std::vector<std::int64_t>{3});
}

TEST(DecidingOperands, LabelsMayBeTheIgnoredOne) {
  EXPECT_FALSE(is_refused({-100, 2}, Decides::kLabel, {3, -100}));
  EXPECT_TRUE(is_refused({-99, 2}, Decides::kLabel, {3, -100}));
  EXPECT_TRUE(is_refused({3}, Decides::kLabel, {3, 0}));
}

TEST(DecidingOperands, SizesAreNeitherNegativeNorEndless) {
  EXPECT_FALSE(is_refused({0, 7}, Decides::kSizes));
  EXPECT_TRUE(is_refused({-1}, Decides::kSizes));
  EXPECT_TRUE(is_refused({kHuge}, Decides::kSizes));
  EXPECT_FALSE(is_refused({-1}, Decides::kShape));
  EXPECT_FALSE(is_refused({kHuge, -kHuge}, Decides::kBounds));
  EXPECT_TRUE(is_refused({1, 0}, Decides::kSteps));
  EXPECT_TRUE(is_refused({1, 2}, Decides::kOne));
}

TEST(DecidingOperands, ScalesAreFiniteAndPositive) {
  for (const float wrong : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(refusal(Tensor::scalar(wrong), Decides::kScales, {}));
  }
  EXPECT_FALSE(refusal(Tensor::scalar(0.5F), Decides::kScales, {}));
}

// What follows from sizes, and what TopK finds, is right by itself.
TEST(DecidingOperands, ComputedIsWhatComesFromData) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{4, 3}));
  const ValueId n = graph.add_op("Shape", {x});
  graph.set_type(n, Type::tensor(DType::kInt64, Dims{2}));
  graph.add_op("Expand", {x, n});
  const ValueId best = graph.add_op("ArgMax", {x}, {{"axis", std::int64_t{0}}});
  graph.set_type(best, Type::tensor(DType::kInt64, Dims{1, 3}));
  graph.add_op("GatherElements", {x, best}, {{"axis", std::int64_t{0}}});
  EXPECT_TRUE(computed_operands(graph).empty());
  graph.add_op("GatherElements", {x, best}, {{"axis", std::int64_t{1}}});  // 4 rows, 3 columns
  EXPECT_EQ(computed_operands(graph).size(), 1U);
}

// Where the length of the axis is not known: it is the same one.
TEST(DecidingOperands, PositionsInTheSameAxisOfTheSameValueAreRight) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim(), Dim()}));
  const ValueId other = graph.add_input("y", Type::tensor(DType::kFloat32, Shape{Dim(), Dim()}));
  const ValueId best = graph.add_op("ArgMax", {x}, {{"axis", std::int64_t{1}}});
  graph.set_type(best, Type::tensor(DType::kInt64, Shape{Dim(), 1}));
  graph.add_op("GatherElements", {x, best}, {{"axis", std::int64_t{-1}}});
  EXPECT_TRUE(computed_operands(graph).empty());
  graph.add_op("GatherElements", {x, best}, {{"axis", std::int64_t{0}}});
  graph.add_op("GatherElements", {other, best}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(computed_operands(graph).size(), 2U);
}

TEST(SizeRules, JudgeWhatTypeInferenceLetsPass) {
  Graph graph;
  const auto input = [&](Dims dims) {
    return graph.add_input("", Type::tensor(DType::kFloat32, dims));
  };
  const ValueId x = input({1, 2, 5, 5});
  const auto refused = [&](std::string_view op, std::vector<ValueId> inputs,
                           Attributes attributes = {}) {
    const ValueId out = graph.add_op(op, std::move(inputs), std::move(attributes));
    return sizes_refusal(graph, graph.node(graph.value(out).producer)).has_value();
  };
  EXPECT_FALSE(refused("PRelu", {x, input({2, 1, 1})}));
  EXPECT_TRUE(refused("PRelu", {x, input({3})}));
  EXPECT_TRUE(refused("PRelu", {x, input({1, 1, 1, 1, 1})}));
  using Ints = std::vector<std::int64_t>;
  EXPECT_FALSE(refused("MaxPool", {x}, {{"kernel_shape", Ints{5, 5}}}));
  EXPECT_TRUE(refused("MaxPool", {x}, {{"kernel_shape", Ints{6, 5}}}));
  EXPECT_FALSE(refused("Conv", {x, input({4, 2, 3, 3})}));
  EXPECT_TRUE(refused("Conv", {x, input({4, 3, 3, 3})}));
  EXPECT_TRUE(refused("GatherElements", {x, input({1, 3, 5, 5})}));
}

TEST(SizeRules, SymbolsTellWhatCannotDisagree) {
  Graph graph;
  const auto input = [&](Shape shape) {
    return graph.add_input("", Type::tensor(DType::kFloat32, std::move(shape)));
  };
  const Dim n("n"), m("m");
  const auto doubtful = [&](std::string_view op, std::vector<ValueId> inputs,
                            Attributes attributes = {}, Shape made = {}) {
    const ValueId out = graph.add_op(op, std::move(inputs), std::move(attributes));
    if (!made.empty()) graph.set_type(out, Type::tensor(DType::kFloat32, std::move(made)));
    return may_disagree(graph, graph.node(graph.value(out).producer));
  };
  const ValueId x = input({n, Dim(6)});
  EXPECT_FALSE(doubtful("Relu", {x}));
  EXPECT_FALSE(doubtful("Add", {x, input({n, Dim(1)})}));
  EXPECT_TRUE(doubtful("Add", {x, input({m, Dim(6)})}));
  EXPECT_FALSE(doubtful("MatMul", {x, input({Dim(6), m})}));
  EXPECT_TRUE(doubtful("MatMul", {x, input({n, Dim(6)})}));
  EXPECT_FALSE(doubtful("Concat", {x, input({m, Dim(6)})}, {{"axis", std::int64_t{0}}}));
  EXPECT_TRUE(doubtful("Concat", {x, input({m, Dim(6)})}, {{"axis", std::int64_t{1}}}));
  EXPECT_FALSE(doubtful("Reshape", {x}, {}, {n, Dim(2), Dim(3)}));
  EXPECT_TRUE(doubtful("Reshape", {x}, {}, {n, Dim(2), Dim(2)}));
  EXPECT_TRUE(doubtful("Reshape", {x}, {}, {m, Dim(6)}));
  EXPECT_TRUE(doubtful("MaxPool", {x}));
}

}  // namespace
}  // namespace xrt
