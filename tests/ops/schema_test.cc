// SPDX-License-Identifier: Apache-2.0
#include "ops/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ir/verifier.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

std::vector<std::string> ops_of(const Graph& g) {
  std::vector<std::string> ops;
  for (const NodeId id : g.nodes()) ops.push_back(g.node(id).op);
  std::sort(ops.begin(), ops.end());
  return ops;
}

TEST(Schema, KnowsTheHistoryOfAnOp) {
  EXPECT_EQ(op_info("", "Softmax")->since_version, 13);
  EXPECT_EQ(op_info("", "Softmax", 12)->since_version, 11);
  EXPECT_EQ(op_info("ai.onnx", "Softmax", 1)->since_version, 1);
  EXPECT_FALSE(op_info("", "Upsample"));  // deprecated since opset 10
  EXPECT_FALSE(op_info("", "NoSuchOp"));
  const auto conv = op_info("", "Conv");
  EXPECT_EQ(conv->min_inputs, 2);
  EXPECT_EQ(conv->max_inputs, 3);
  EXPECT_EQ(conv->input_names, (std::vector<std::string>{"X", "W", "B"}));
}

TEST(Schema, ListsTheStandardWithoutDeprecatedOps) {
  const auto ops = all_ops("");
  EXPECT_GT(ops.size(), 180U);
  const auto has = [&](const std::string& name) {
    return std::any_of(ops.begin(), ops.end(), [&](const OpInfo& o) { return o.name == name; });
  };
  EXPECT_TRUE(has("Relu"));
  EXPECT_FALSE(has("Upsample"));
  EXPECT_FALSE(all_ops("ai.onnx.ml").empty());
}

TEST(Schema, RandomOpsAreNotDeterministic) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const auto node = [&](const char* op) -> const Node& {
    return g.node(g.add_node("", op, {x}, {""}));
  };
  EXPECT_TRUE(is_deterministic(node("Relu")));
  EXPECT_FALSE(is_deterministic(node("RandomNormalLike")));
  EXPECT_FALSE(is_deterministic(node("Bernoulli")));
  EXPECT_FALSE(is_deterministic(g.node(g.add_node("my", "Op", {x}, {""}))));
}

TEST(Schema, BodyOfAnOpIsAGraphOfOlderOpsAtThePinnedOpset) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 4}));
  const NodeId gelu = g.add_node("", "Gelu", {x}, {"y"}, {{"approximate", std::string("tanh")}});
  infer_shapes(g);
  ASSERT_TRUE(has_function_body(g, gelu));
  const Graph body = function_body(g, gelu);
  EXPECT_NO_THROW(verify(body));
  EXPECT_EQ(body.inputs().size(), 1U);
  EXPECT_EQ(to_string(body.type(body.outputs()[0])), "float32[n,4]");
  const auto ops = ops_of(body);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "Tanh"), ops.end());
  EXPECT_EQ(std::find(ops.begin(), ops.end(), "Erf"), ops.end());
}

TEST(Schema, BodyLeavesOutAbsentArguments) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{3}));
  const ValueId high = g.add_constant("high", Tensor::scalar(1.0F));
  const NodeId clip = g.add_node("", "Clip", {x, {}, high}, {"y"});
  infer_shapes(g);
  const Graph body = function_body(g, clip);
  EXPECT_EQ(body.inputs().size(), 2U);
  EXPECT_NO_THROW(verify(body));
}

TEST(Schema, OpsWithoutABodySayNo) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const NodeId sigmoid = g.add_node("", "Sigmoid", {x}, {"y"});
  EXPECT_FALSE(has_function_body(g, sigmoid));
  EXPECT_THROW(function_body(g, sigmoid), Error);
}

TEST(Schema, BodiesAreNotBuiltWithoutWhatTheyNeed) {
  Graph g;
  const ValueId x = g.add_input("x", Type{});  // of unknown type
  auto body = std::make_shared<Graph>("body");
  const ValueId inner = body->add_input("inner", Type::tensor(DType::kFloat32));
  body->add_output(body->add_op("Relu", {inner}));
  const NodeId map = g.add_node("", "SequenceMap", {x}, {"y"}, {{"body", body}});
  EXPECT_FALSE(has_function_body(g, map));
  const NodeId none =
      g.add_node("", "SequenceMap", {ValueId{}}, {"z"}, {{"body", std::make_shared<Graph>(*body)}});
  EXPECT_FALSE(has_function_body(g, none));
  g.set_type(x, Type::sequence(Type::tensor(DType::kFloat32)));
  EXPECT_TRUE(has_function_body(g, map));
}

TEST(Schema, ExpansionKeepsTheNamesOfOutputs) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 4}));
  const ValueId y = g.add_op("Softplus", {g.add_op("LogSoftmax", {x})}, {}, "result");
  g.add_output(y);
  infer_shapes(g);
  const bool changed = expand_functions(
      g, [](const Graph& graph, NodeId id) { return graph.node(id).op != "Softmax"; });
  EXPECT_TRUE(changed);
  EXPECT_NO_THROW(verify(g));
  EXPECT_EQ(g.value(g.outputs()[0]).name, "result");
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[n,4]");
  for (const std::string& op : ops_of(g)) {
    EXPECT_NE(op, "Softplus");
    EXPECT_NE(op, "LogSoftmax");
  }
}

TEST(Schema, ExpansionReachesSubgraphs) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  auto body = std::make_shared<Graph>("branch");
  body->add_output(body->add_op("Softplus", {body->add_capture(x, "inner", g.type(x))}));
  g.add_output(g.add_op("If", {c},
                        {{"then_branch", body}, {"else_branch", std::make_shared<Graph>(*body)}}));
  infer_shapes(g);
  EXPECT_TRUE(expand_functions(g, [](const Graph&, NodeId) { return true; }));
  EXPECT_NO_THROW(verify(g));
  for (const NodeId id : g.nodes()) {
    for (const Graph* branch : Graph::subgraphs(g.node(id))) {
      EXPECT_THAT(ops_of(*branch), testing::Not(testing::Contains("Softplus")));
    }
  }
}

}  // namespace
}  // namespace xrt
