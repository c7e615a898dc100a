// SPDX-License-Identifier: Apache-2.0
#include "ir/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {

// What no caller of Graph can do.
struct GraphTestAccess {
  static Node& node(Graph& g, NodeId id) { return g.slot(id).node; }
  static Value& value(Graph& g, ValueId id) { return g.slot(id).value; }
  static void kill(Graph& g, ValueId id) { g.slot(id).alive = false; }
  static void add_use(Graph& g, ValueId id, Use use) { g.slot(id).uses.push_back(use); }
};

namespace {

struct Sample {
  Graph graph{"sample"};
  ValueId x, w, y, z;
  NodeId add, relu;

  Sample() {
    x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N"), 3}));
    w = graph.add_constant("w", Tensor::allocate(DType::kFloat32, {3}));
    add = graph.add_node("", "Add", {x, w}, {"y"}, {}, "add");
    y = graph.node(add).outputs[0];
    relu = graph.add_node("", "Relu", {y}, {"z"}, {}, "relu");
    z = graph.node(relu).outputs[0];
    graph.add_output(z);
  }
};

void expect_broken(const std::string& rule, const Graph& graph) {
  try {
    verify(graph);
    ADD_FAILURE() << "rule [" << rule << "] was not noticed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(e.what(), testing::HasSubstr("[" + rule + "]"));
  }
}

TEST(Verifier, AcceptsAWellFormedGraph) { EXPECT_NO_THROW(verify(Sample().graph)); }

TEST(Verifier, Ids) {
  Sample s;
  GraphTestAccess::kill(s.graph, s.w);
  expect_broken("ids", s.graph);
}

TEST(Verifier, OriginsOfTwoProducers) {
  Sample s;
  GraphTestAccess::node(s.graph, s.relu).outputs[0] = s.y;
  expect_broken("origins", s.graph);
}

TEST(Verifier, OriginsWithoutAny) {
  Sample s;
  GraphTestAccess::value(s.graph, s.w).origin = Origin::kInput;
  expect_broken("origins", s.graph);
}

TEST(Verifier, OriginsOfAnotherPlace) {
  Sample s;
  GraphTestAccess::value(s.graph, s.z).output_index = 1;
  expect_broken("origins", s.graph);
}

TEST(Verifier, NamesOfValues) {
  Sample s;
  GraphTestAccess::value(s.graph, s.w).name = "x";
  expect_broken("names", s.graph);
}

TEST(Verifier, NamesOfNodes) {
  Sample s;
  GraphTestAccess::node(s.graph, s.add).name.clear();
  expect_broken("names", s.graph);
}

TEST(Verifier, Uses) {
  Sample s;
  GraphTestAccess::add_use(s.graph, s.z, {s.add, 0});
  expect_broken("uses", s.graph);
}

TEST(Verifier, Acyclic) {
  Sample s;
  s.graph.set_input(s.add, 1, s.z);
  expect_broken("acyclic", s.graph);
}

TEST(Verifier, CapturesOfMissingValues) {
  Sample s;
  auto body = std::make_shared<Graph>("body");
  body->add_output(body->add_capture(s.y, "inner", s.graph.type(s.y)));
  s.graph.add_node("test", "Body", {}, {}, {{"body", body}});
  body->remap_captures([](ValueId) { return ValueId{99}; });
  expect_broken("captures", s.graph);
}

TEST(Verifier, CapturesOfAnotherType) {
  Sample s;
  auto body = std::make_shared<Graph>("body");
  body->add_output(body->add_capture(s.x, "inner", Type::tensor(DType::kInt64)));
  s.graph.add_node("test", "Body", {}, {}, {{"body", body}});
  expect_broken("captures", s.graph);
}

TEST(Verifier, RulesHoldInSubgraphs) {
  Sample s;
  auto body = std::make_shared<Graph>("body");
  const ValueId c = body->add_constant("c", Tensor::scalar(1.0F));
  body->add_output(c);
  body->set_type(c, Type::tensor(DType::kInt8));
  s.graph.add_node("test", "Body", {}, {}, {{"body", body}});
  expect_broken("constants", s.graph);
}

TEST(Verifier, Constants) {
  Sample s;
  s.graph.set_type(s.w, Type::tensor(DType::kFloat32, Dims{4}));
  expect_broken("constants", s.graph);
}

TEST(Verifier, Dims) {
  Sample s;
  s.graph.set_type(s.y, Type::tensor(DType::kFloat32, Shape{Dim(-7)}));
  expect_broken("dims", s.graph);
}

TEST(Verifier, DefaultsOfAnotherShape) {
  Sample s;
  s.graph.input_defaults()[s.x] = Tensor::allocate(DType::kFloat32, {2, 4});
  expect_broken("defaults", s.graph);
}

TEST(Verifier, DefaultsOfNoInput) {
  Sample s;
  s.graph.input_defaults()[s.y] = Tensor::allocate(DType::kFloat32, {3});
  expect_broken("defaults", s.graph);
}

TEST(Verifier, Opset) {
  Sample s;
  s.graph.opsets()[""] = 17;
  expect_broken("opset", s.graph);
}

}  // namespace
}  // namespace xrt
