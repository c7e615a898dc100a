// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ir/verifier.h"
#include "tests/support/growth.h"
#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;

ValueId ints(Graph& g, const std::string& name, const Ints& values) {
  return g.add_constant(name, Tensor::from_int64(values));
}

std::string type_text(const Graph& g, ValueId v) { return to_string(g.type(v)); }

TEST(ShapeInference, KeepsSymbols) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("batch"), 3, 8, 8}));
  const ValueId w = g.add_constant("w", Tensor::allocate(DType::kFloat32, {4, 3, 3, 3}));
  const ValueId y = g.add_op("Conv", {x, w}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  const ValueId z = g.add_op("Relu", {y});
  infer_shapes(g);
  EXPECT_EQ(type_text(g, z), "float32[batch,4,4,4]");
}

TEST(ShapeInference, FollowsPartlyKnownShapesToReshape) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("batch"), 6, 4}));
  const ValueId shape = g.add_op("Shape", {x});
  const ValueId batch =
      g.add_op("Gather", {shape, ints(g, "zero", {0})}, {{"axis", std::int64_t{0}}});
  const ValueId target =
      g.add_op("Concat", {batch, ints(g, "rest", {3, 8})}, {{"axis", std::int64_t{0}}});
  const ValueId y = g.add_op("Reshape", {x, target});
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[batch,3,8]");
}

TEST(ShapeInference, SpecialisesAnew) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 4}));
  const ValueId y = g.add_op("Transpose", {x}, {{"perm", Ints{1, 0}}});
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[4,n]");
  for (const std::int64_t n : {2, 5}) {
    g.set_type(x, Type::tensor(DType::kFloat32, Dims{n, 4}));
    infer_shapes(g, /*reset=*/true);
    EXPECT_EQ(type_text(g, y), "float32[4," + std::to_string(n) + "]");
  }
}

TEST(ShapeInference, NamesTheNodeThatContradictsItsDeclaredElementType) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2, 3}));
  const NodeId relu = g.add_node("", "Relu", {x}, {"y"}, {}, "the_relu");
  g.set_type(g.node(relu).outputs[0], Type::tensor(DType::kInt64, Dims{2, 3}));
  try {
    infer_shapes(g);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(e.what(), testing::HasSubstr("node 'the_relu' (Relu)"));
    EXPECT_THAT(e.what(), testing::HasSubstr("int64[2,3]"));
  }
}

TEST(ShapeInference, WhatFollowsFromInputsBeatsTheShapeThatAFileDeclares) {
  for (const Dims& declared : {Dims{}, Dims{2, 4}, Dims{1, 2, 3}}) {
    Graph g;
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2, 3}));
    const NodeId relu = g.add_node("", "Relu", {x}, {"y"}, {}, "the_relu");
    const ValueId y = g.node(relu).outputs[0];
    g.set_type(y, Type::tensor(DType::kFloat32, declared));
    Graph strict(g);
    EXPECT_THROW(infer_shapes(strict), Error);
    testing::internal::CaptureStderr();
    infer_shapes_of_file(g);
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_EQ(type_text(g, y), "float32[2,3]");
    EXPECT_THAT(told, testing::HasSubstr("node 'the_relu' (Relu): output 'y' is declared"));
  }
}

TEST(ShapeInference, NamesTheNodeThatBreaksItsRule) {
  Graph g;
  const ValueId a = g.add_input("a", Type::tensor(DType::kFloat32, Dims{2, 3}));
  const ValueId b = g.add_input("b", Type::tensor(DType::kFloat32, Dims{4, 5}));
  g.add_node("", "MatMul", {a, b}, {"y"}, {}, "the_matmul");
  try {
    infer_shapes(g);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("node 'the_matmul' (MatMul)"));
  }
}

TEST(ShapeInference, RefusesTypesTheOpDoesNotTake) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kString, Dims{2}));
  g.add_op("Relu", {x});
  EXPECT_THROW(infer_shapes(g), Error);
}

TEST(ShapeInference, TakesDeclaredAndInferredTogether) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32));
  const ValueId y = g.add_op("Relu", {x});
  g.set_type(y, Type::tensor(DType::kFloat32, Shape{Dim("n"), 7}));
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[n,7]");
}

TEST(ShapeInference, LeavesOpsOfOtherDomainsAsTheyAre) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const NodeId custom = g.add_node("my.domain", "Magic", {x}, {"y"});
  const ValueId y = g.node(custom).outputs[0];
  g.set_type(y, Type::tensor(DType::kInt8, Dims{5}));
  const ValueId unknown = g.node(g.add_node("my.domain", "Magic", {x}, {"u"})).outputs[0];
  const ValueId after = g.add_op("Relu", {unknown});
  infer_shapes(g, /*reset=*/true);
  EXPECT_EQ(type_text(g, y), "int8[5]");
  EXPECT_EQ(g.type(after).dtype, DType::kUndefined);
}

TEST(ShapeInference, InfersSubgraphsFromWhatTheyCapture) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 4}));
  const auto branch = [&](const char* op) {
    auto body = std::make_shared<Graph>("branch");
    const ValueId inner = body->add_capture(x, "inner", Type{});
    body->add_output(body->add_op(op, {inner}));
    return body;
  };
  const ValueId y =
      g.add_op("If", {c}, {{"then_branch", branch("Relu")}, {"else_branch", branch("Neg")}});
  g.add_output(y);
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[n,4]");
  EXPECT_NO_THROW(verify(g));
}

// One branch is for inputs of 4 columns, the other for 8; specialised to 8, the first cannot run.
TEST(ShapeInference, ABranchForOtherShapesIsNoError) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{2, Dim("n")}));
  const auto branch = [&](std::int64_t columns) {
    auto body = std::make_shared<Graph>("branch");
    const ValueId inner = body->add_capture(x, "inner", Type{});
    const ValueId w = body->add_constant("w", Tensor::allocate(DType::kFloat32, {columns, 3}));
    body->add_output(body->add_op("MatMul", {inner, w}));
    return body;
  };
  const ValueId y = g.add_op("If", {c}, {{"then_branch", branch(4)}, {"else_branch", branch(8)}});
  g.add_output(y);
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[2,3]");
  g.set_type(x, Type::tensor(DType::kFloat32, Dims{2, 8}));
  infer_shapes(g, /*reset=*/true);
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[2,3]");
  EXPECT_NO_THROW(verify(g));
}

TEST(ShapeInference, FoldsKnownPartsOfShapesOnly) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 6, 4}));
  const ValueId shape = g.add_op("Shape", {x});
  const ValueId six = g.add_op("Gather", {shape, ints(g, "one", {1})});
  const ValueId n = g.add_op("Gather", {shape, ints(g, "zero", {0})});
  const ValueId twelve = g.add_op("Add", {six, six});
  g.add_output(g.add_op("Mul", {twelve, n}));
  EXPECT_TRUE(fold_known_values(g));
  ASSERT_NE(g.constant(twelve), nullptr);
  EXPECT_EQ(g.constant(twelve)->to_int64(), Ints{12});
  EXPECT_EQ(g.constant(n), nullptr);
  EXPECT_NO_THROW(verify(g));
  EXPECT_FALSE(fold_known_values(g));
}

// The ONNX library's rule takes a bound that it does not know for 0.
TEST(ShapeInference, ASliceWithAnUnknownBoundIsNotFollowed) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{5, 1, 96}));
  const ValueId start = g.add_input("start", Type::tensor(DType::kInt64, Dims{1}));
  const ValueId shape = g.add_op("Shape", {x});
  const ValueId tail = g.add_op("Slice", {shape, start, ints(g, "end", {3})});
  g.add_output(tail);
  fold_known_values(g);
  EXPECT_EQ(g.constant(tail), nullptr);
  EXPECT_EQ(type_text(g, tail), "int64[?]");
}

TEST(ShapeInference, FollowsRemaindersToASlice) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{5, 1, 96}));
  const ValueId two = g.add_op("Mod", {ints(g, "five", {5}), ints(g, "three", {3})});
  const ValueId shape = g.add_op("Shape", {x});
  const ValueId tail = g.add_op("Slice", {shape, two, ints(g, "end", {3})});
  g.add_output(g.add_op("Neg", {tail}));
  EXPECT_TRUE(fold_known_values(g));
  ASSERT_NE(g.constant(tail), nullptr);
  EXPECT_EQ(g.constant(tail)->to_int64(), Ints{96});
}

// A value of two axes must not be taken for the list of its entries.
TEST(ShapeInference, DoesNotMixUpRanksOfFollowedValues) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{5, 7}));
  const ValueId shape = g.add_op("Shape", {x});
  const ValueId column = g.add_op("Unsqueeze", {shape, ints(g, "axis", {1})});
  const ValueId row = ints(g, "row", {1, 2, 3});
  const ValueId sum = g.add_op("Add", {column, row});
  infer_shapes(g);
  EXPECT_EQ(type_text(g, sum), "int64[2,3]");
}

// The ONNX library's rule would never return.
TEST(ShapeInference, MalformedEinsumEquationsAreRefused) {
  for (const char* equation : {"i\x87j->i", "...i......->i", "i;j"}) {
    Graph g;
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2, 3}));
    g.add_op("Einsum", {x}, {{"equation", std::string(equation)}});
    EXPECT_THROW(infer_shapes(g), Error) << equation;
  }
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2, 3}));
  const ValueId y =
      g.add_op("Einsum", {x}, {{"equation", std::string("...i, ->...i").erase(4, 1)}});
  infer_shapes(g);
  EXPECT_EQ(type_text(g, y), "float32[2,3]");
}

TEST(ShapeInference, WorkGrowsInProportionToTheGraph) {
  const auto seconds = [](int nodes) {
    return processor_seconds([nodes] {
      Graph g;
      ValueId v = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 16}));
      const ValueId one = g.add_constant("one", Tensor::scalar(1.0F));
      for (int i = 0; i < nodes / 2; ++i) v = g.add_op("Add", {g.add_op("Relu", {v}), one});
      g.add_output(v);
      infer_shapes(g);
      EXPECT_EQ(type_text(g, v), "float32[n,16]");
    });
  };
  EXPECT_LT(seconds(10000), kTenTimesTheSize * seconds(1000));
}

// What no file of ONNX can hold, a graph made by hand or read as text can.
TEST(ShapeInference, OperandsThatMustBeThereAre) {
  for (const char* op : {"Gather", "GatherND", "Relu"}) {
    Graph graph;
    graph.add_op(op, {ValueId{}});
    EXPECT_THROW(infer_shapes(graph), Error) << op;
  }
  Graph graph;
  graph.opsets()["ai.onnx.ml"] = 5;
  graph.add_node("ai.onnx.ml", "DictVectorizer", {}, {"y"});
  EXPECT_THROW(infer_shapes(graph), Error);
  Graph many;
  const ValueId x = many.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  many.add_op("Relu", {x, x, x});
  EXPECT_THROW(infer_shapes(many), Error);
}

}  // namespace
}  // namespace xrt
