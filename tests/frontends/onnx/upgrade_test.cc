// SPDX-License-Identifier: Apache-2.0
// Nodes of older opsets say the same at the pinned one. The numbers are compared with ONNX Runtime
// and ONNX's reference evaluator in test_old_opsets.py; here is what the graphs look like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontends/onnx/importer.h"
#include "ir/verifier.h"
#include "tests/frontends/onnx/wire.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using namespace wire;  // NOLINT(google-build-using-namespace): the vocabulary of every test here

// A model of one node from x (and constants) to y.
Graph upgraded(std::int64_t version, const Message& n, const Message& x,
               const std::vector<Message>& initializers = {}) {
  Graph g = import_onnx_bytes(model(
      version,
      {.nodes = {n}, .inputs = {x}, .outputs = {untyped("y")}, .initializers = initializers}));
  EXPECT_NO_THROW(verify(g));
  return g;
}

const Node& only(const Graph& g, const std::string& op) {
  for (const NodeId id : g.nodes()) {
    if (g.node(id).op == op) return g.node(id);
  }
  throw Error(ErrorCode::kInternal, "no " + op);
}

std::vector<std::int64_t> input_ints(const Graph& g, const Node& n, std::size_t i) {
  const Tensor* t = g.constant(n.input(i));
  return t == nullptr ? std::vector<std::int64_t>{-99} : t->to_int64();
}

float input_float(const Graph& g, const Node& n, std::size_t i) {
  const Tensor* t = g.constant(n.input(i));
  return t == nullptr || t->dtype() != DType::kFloat32 ? -99.0F : t->data<float>()[0];
}

const Message kX = value("x", kFloat, {2, 3, 4});

TEST(Upgrade, AxesBecomeInputs) {
  const Graph g = upgraded(11, node("ReduceMean", {"x"}, {"y"}, {attribute("axes", Ints{1})}), kX);
  const Node& n = only(g, "ReduceMean");
  EXPECT_FALSE(n.has("axes"));
  EXPECT_EQ(input_ints(g, n, 1), Ints{1});
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2,1,4]");
}

TEST(Upgrade, AxesThatAreInputsAlreadyStay) {
  const Graph g = upgraded(13, node("ReduceSum", {"x", "a"}, {"y"}), kX,
                           {tensor("a", kInt64, {1}, raw<std::int64_t>({2}))});
  EXPECT_EQ(input_ints(g, only(g, "ReduceSum"), 1), Ints{2});
}

TEST(Upgrade, SliceTakesInputs) {
  const Graph g = upgraded(
      9,
      node("Slice", {"x"}, {"y"},
           {attribute("starts", Ints{1}), attribute("ends", Ints{3}), attribute("axes", Ints{2})}),
      kX);
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2,3,2]");
}

TEST(Upgrade, ClipTakesLimitsOfTheInputsType) {
  const Message n = node("Clip", {"x"}, {"y"}, {attribute("min", -1.0F), attribute("max", 6.0F)});
  const Graph f32 = upgraded(6, n, kX);  // Clip of opset 6 is that of opset 7
  EXPECT_EQ(input_float(f32, only(f32, "Clip"), 1), -1.0F);
  EXPECT_EQ(input_float(f32, only(f32, "Clip"), 2), 6.0F);
  EXPECT_EQ(f32.node_count(), 1U);
  const Graph f16 = upgraded(7, n, value("x", 10, {2}));
  EXPECT_EQ(f16.type(only(f16, "Clip").inputs[1]).dtype, DType::kFloat16);
}

TEST(Upgrade, SoftmaxOnTheLastAxisStaysOneNode) {
  const Graph g =
      upgraded(11, node("Softmax", {"x"}, {"y"}, {attribute("axis", std::int64_t{2})}), kX);
  EXPECT_EQ(g.node_count(), 1U);
  EXPECT_EQ(only(g, "Softmax").attr_int("axis", 99), 2);
  EXPECT_EQ(only(g, "Softmax").attributes.size(), 1U);
}

TEST(Upgrade, SoftmaxOverSeveralAxesIsFlattened) {
  const Graph g = upgraded(11, node("Softmax", {"x"}, {"y"}), kX);  // the axis was 1 by default
  EXPECT_EQ(only(g, "Flatten").attr_int("axis", 99), 1);
  EXPECT_EQ(only(g, "Softmax").attr_int("axis", 99), -1);
  EXPECT_EQ(to_string(g.type(only(g, "Softmax").outputs[0])), "float32[2,12]");
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2,3,4]");
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
}

TEST(Upgrade, SoftmaxBeforeAxesOfOneStaysOneNode) {
  const Graph g = upgraded(9, node("Softmax", {"x"}, {"y"}), value("x", kFloat, {1, 10, 1, 1}));
  EXPECT_EQ(g.node_count(), 1U);
  EXPECT_EQ(only(g, "Softmax").attr_int("axis", 99), 1);
}

// Where ONNX's own converter keeps the sampling of opset 11, which is another one.
TEST(Upgrade, ResizeKeepsItsSampling) {
  const auto scales = [](float s) { return floats("s", {4}, {1, 1, s, s}); };
  const Message x = value("x", kFloat, {1, 1, 4, 4});
  const Graph larger = upgraded(10, node("Resize", {"x", "s"}, {"y"}), x, {scales(2)});
  EXPECT_EQ(only(larger, "Resize").attr_string("coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(only(larger, "Resize").attr_string("nearest_mode", ""), "floor");
  EXPECT_EQ(to_string(larger.type(larger.outputs()[0])), "float32[1,1,8,8]");
  const Graph smaller = upgraded(10, node("Resize", {"x", "s"}, {"y"}), x, {scales(0.5F)});
  EXPECT_EQ(only(smaller, "Resize").attr_string("nearest_mode", ""), "ceil");
  const Graph linear = upgraded(
      10, node("Resize", {"x", "s"}, {"y"}, {attribute("mode", "linear")}), x, {scales(2)});
  EXPECT_EQ(only(linear, "Resize").attr_string("coordinate_transformation_mode", ""), "asymmetric");
}

TEST(Upgrade, UpsampleBecomesResize) {
  const Graph g = upgraded(
      7, node("Upsample", {"x"}, {"y"}, {attribute("scales", std::vector<float>{1, 1, 2, 2})}),
      value("x", kFloat, {1, 1, 2, 2}));
  EXPECT_EQ(g.node(g.nodes()[0]).op, "Resize");
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[1,1,4,4]");
}

TEST(Upgrade, PadTakesInputs) {
  const Graph g =
      upgraded(2 + 5,
               node("Pad", {"x"}, {"y"},
                    {attribute("pads", Ints{0, 0, 1, 0, 0, 1}), attribute("value", 2.0F)}),
               kX);
  EXPECT_EQ(input_float(g, only(g, "Pad"), 2), 2.0F);
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2,3,6]");
}

TEST(Upgrade, SplitCountsItsOutputs) {
  const Graph g = import_onnx_bytes(
      model(13, {.nodes = {node("Split", {"x"}, {"y", "z"}, {attribute("axis", std::int64_t{2})})},
                 .inputs = {kX},
                 .outputs = {untyped("y"), untyped("z")}}));
  EXPECT_EQ(only(g, "Split").attr_int("num_outputs", 0), 2);
  EXPECT_EQ(to_string(g.type(g.outputs()[1])), "float32[2,3,2]");
}

TEST(Upgrade, OpsThatGotAnotherName) {
  const Graph g =
      upgraded(9, node("Scatter", {"x", "i", "u"}, {"y"}), value("x", kFloat, {3}),
               {tensor("i", kInt64, {1}, raw<std::int64_t>({2})), floats("u", {1}, {9})});
  EXPECT_EQ(g.node(g.nodes()[0]).op, "ScatterElements");
}

TEST(Upgrade, GroupNormalizationRepeatsScaleAndBiasPerChannel) {
  const Graph g =
      upgraded(18,
               node("GroupNormalization", {"x", "s", "b"}, {"y"},
                    {attribute("num_groups", std::int64_t{2})}),
               value("x", kFloat, {1, 4, 3}), {floats("s", {2}, {1, 2}), floats("b", {2}, {3, 4})});
  EXPECT_EQ(to_string(g.type(only(g, "GroupNormalization").inputs[1])), "float32[4]");
}

TEST(Upgrade, ReachesSubgraphs) {
  const Message body = graph({.nodes = {node("Softmax", {"x"}, {"r"})}, .outputs = {untyped("r")}});
  const Graph g =
      import_onnx_bytes(model(11, {.nodes = {node("If", {"c"}, {"y"},
                                                  {graph_attribute("then_branch", body),
                                                   graph_attribute("else_branch", body)})},
                                   .inputs = {kX, value("c", kBool, {})},
                                   .outputs = {untyped("y")}}));
  EXPECT_NO_THROW(verify(g));
  for (const Graph* branch : Graph::subgraphs(only(g, "If"))) {
    EXPECT_EQ(branch->node_count(), 4U);  // Shape, Flatten, Softmax, Reshape
  }
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2,3,4]");
}

TEST(Upgrade, OldBroadcastGetsItsAxesWhereRanksAreKnown) {
  const Message n =
      node("Add", {"x", "b"}, {"y"},
           {attribute("broadcast", std::int64_t{1}), attribute("axis", std::int64_t{1})});
  const Graph g = upgraded(6, n, kX, {floats("b", {3}, {1, 2, 3})});
  EXPECT_EQ(g.node_count(), 2U);
  EXPECT_EQ(to_string(g.type(only(g, "Add").inputs[1])), "float32[3,1]");
  EXPECT_TRUE(only(g, "Add").attributes.empty());
}

TEST(Upgrade, OldBroadcastFollowsRanksThatAreInferred) {
  const Message n =
      node("Add", {"r", "b"}, {"y"},
           {attribute("broadcast", std::int64_t{1}), attribute("axis", std::int64_t{0})});
  const Graph g = import_onnx_bytes(model(6, {.nodes = {node("Relu", {"x"}, {"r"}), n},
                                              .inputs = {kX},
                                              .outputs = {untyped("y")},
                                              .initializers = {floats("b", {2}, {1, 2})}}));
  EXPECT_EQ(to_string(g.type(only(g, "Reshape").outputs[0])), "float32[2,1,1]");
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2,3,4]");
}

TEST(Upgrade, CastByName) {
  const Graph g = upgraded(1, node("Cast", {"x"}, {"y"}, {attribute("to", "DOUBLE")}), kX);
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float64[2,3,4]");
  EXPECT_THROW(upgraded(1, node("Cast", {"x"}, {"y"}, {attribute("to", "WIDE")}), kX), Error);
}

TEST(Upgrade, SaysWhatCannotBeSaidAnyMore) {
  const auto refused = [](std::int64_t version, const Message& n) {
    try {
      upgraded(version, n, kX, {floats("s", {3}, {1, 1, 1})});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(e.what(), testing::HasSubstr("node 'n'"));
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused(9, node("BatchNormalization", {"x", "s", "s", "s", "s"},
                              {"y", "m", "v", "sm", "sv"}, {}, "n")));
  const auto one = [](const char* name) { return attribute(name, std::int64_t{1}); };
  EXPECT_TRUE(refused(6, node("BatchNormalization", {"x", "s", "s", "s", "s"}, {"y"}, {}, "n")));
  EXPECT_TRUE(refused(6, node("BatchNormalization", {"x", "s", "s", "s", "s"},
                              {"y", "m", "v", "sm", "sv"}, {one("is_test")}, "n")));
  EXPECT_TRUE(refused(6, node("Dropout", {"x"}, {"y"}, {}, "n")));
  EXPECT_TRUE(refused(6, node("Add", {"x", "s"}, {"y"},
                              {one("broadcast"), attribute("axis", std::int64_t{-2})}, "n")));
  EXPECT_TRUE(refused(1, node("Split", {"x"}, {"y"}, {}, "n")));
  EXPECT_TRUE(refused(1, node("Reshape", {"x"}, {"y"}, {}, "n")));
  EXPECT_TRUE(refused(1, node("GlobalLpPool", {"x"}, {"y"}, {attribute("p", 1.5F)}, "n")));
  EXPECT_TRUE(refused(1, node("Tile", {"x", "s", "s"}, {"y"}, {}, "n")));
}

}  // namespace
}  // namespace xrt
