// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/work_scope.h"
#include "ir/verifier.h"
#include "tests/frontends/onnx/wire.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using namespace wire;  // NOLINT(google-build-using-namespace): the vocabulary of every test here
using testing::AllOf;
using testing::HasSubstr;

const Message kX = value("x", kFloat, {2, 3});
const Message kY = value("y", kFloat, {2, 3});

// The message of the error with that code; a failure where there is none.
std::string refusal(const std::string& bytes, ErrorCode code = ErrorCode::kInvalidModel) {
  try {
    import_onnx_bytes(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "the model was accepted";
  return "";
}

std::string type_of(const Graph& g, const std::string& name) {
  const auto v = g.find_value(name);
  return v ? to_string(g.type(*v)) : "no such value";
}

TEST(Importer, ReadsNodesInitializersAndTypes) {
  const Graph g = import_onnx_bytes(model(
      18, {.nodes = {node("Add", {"x", "w"}, {"a"}, {}, "the_add"), node("Relu", {"a"}, {"y"})},
           .inputs = {value("x", kFloat, {-1, 3})},
           .outputs = {value("y", kFloat, {-1, 3})},
           .initializers = {floats("w", {3}, {1, 2, 3})}}));
  EXPECT_EQ(g.opsets().at(""), kOnnxOpset);
  EXPECT_EQ(type_of(g, "a"), "float32[N,3]");
  ASSERT_TRUE(g.find_node("the_add"));
  const Tensor* w = g.constant(*g.find_value("w"));
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->data<float>()[2], 3.0F);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
}

TEST(Importer, ConstantNodesBecomeConstants) {
  const Graph g = import_onnx_bytes(
      model(18, {.nodes = {node("Constant", {}, {"c"}, {attribute("value_ints", Ints{2, 3})}),
                           node("Constant", {}, {"f"}, {attribute("value_float", 1.5F)}),
                           node("Reshape", {"x", "c"}, {"r"}), node("Mul", {"r", "f"}, {"y"})},
                 .inputs = {value("x", kFloat, {6})},
                 .outputs = {kY}}));
  EXPECT_EQ(g.node_count(), 2U);
  EXPECT_EQ(g.constant(*g.find_value("c"))->to_int64(), (Ints{2, 3}));
  EXPECT_EQ(type_of(g, "r"), "float32[2,3]");
}

TEST(Importer, RawDataIsUsedInPlace) {
  const std::vector<float> weights(1024, 0.25F);
  const Graph g = import_onnx_bytes(model(18, {.nodes = {node("Add", {"x", "w"}, {"y"})},
                                               .inputs = {value("x", kFloat, {1024})},
                                               .outputs = {value("y", kFloat, {1024})},
                                               .initializers = {floats("w", {1024}, weights)}}));
  const Tensor* w = g.constant(*g.find_value("w"));
  EXPECT_EQ(w->data<float>()[1023], 0.25F);
  EXPECT_NE(w->owner(), nullptr);
}

TEST(Importer, LargeFilesAreParsedInPieces) {
  constexpr std::size_t kNodes = 50'000;
  constexpr std::size_t kElements = 1'000'000;
  GraphParts parts{.inputs = {value("x", kFloat, {4})}};
  const std::vector<float> weights(kElements, 0.25F);
  parts.initializers = {floats("first", {4}, {1, 2, 3, 4}), floats("w", {kElements}, weights),
                        floats("last", {2, 2}, {5, 6, 7, 8})};
  for (std::size_t i = 0; i < kNodes; ++i) {
    parts.nodes.push_back(node("Relu", {i == 0 ? "x" : "value_" + std::to_string(i - 1)},
                               {"value_" + std::to_string(i)}, {}, "node_" + std::to_string(i)));
  }
  parts.outputs = {value("value_" + std::to_string(kNodes - 1), kFloat, {4}),
                   value("first", kFloat, {4}), value("w", kFloat, {kElements}),
                   value("last", kFloat, {2, 2})};
  const Graph g = import_onnx_bytes(model(18, parts));
  EXPECT_EQ(g.node_count(), kNodes);
  EXPECT_EQ(g.constant(*g.find_value("first"))->data<float>()[3], 4.0F);
  EXPECT_EQ(g.constant(*g.find_value("w"))->data<float>()[kElements - 1], 0.25F);
  EXPECT_EQ(g.constant(*g.find_value("last"))->data<float>()[3], 8.0F);
  EXPECT_TRUE(g.find_node("node_" + std::to_string(kNodes - 1)));
}

// Without its last bytes, at whatever place the pieces are cut.
TEST(Importer, LargeFilesThatAreCutAreRefused) {
  GraphParts parts{.inputs = {value("x", kFloat, {4})}};
  for (int i = 0; i < 100'000; ++i) parts.nodes.push_back(node("Relu", {"x"}, {"y"}));
  const std::string whole = model(18, parts);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{100}, whole.size() / 2}) {
    refusal(whole.substr(0, whole.size() - cut));
  }
}

// Nothing of the file is read when the time is over: it is not even known to be cut.
TEST(Importer, ParsingEndsAtItsTime) {
  GraphParts parts{.inputs = {value("x", kFloat, {4})}};
  for (int i = 0; i < 100'000; ++i) parts.nodes.push_back(node("Relu", {"x"}, {"y"}));
  std::string cut = model(18, parts);
  cut.pop_back();
  const RunLimit limit(1e-9);
  const WorkScope scope(&limit, "loading");
  EXPECT_THAT(refusal(cut, ErrorCode::kResource), HasSubstr("loading takes longer"));
}

TEST(Importer, MessagesAreBoundedByTheFilesSize) {
  std::string many;
  for (int i = 0; i < 3'000'000; ++i) many += Message().text(1, "").bytes();  // empty nodes
  const Message graph = Message().text(7, many);
  EXPECT_THAT(refusal(graph.bytes(), ErrorCode::kResource),
              AllOf(HasSubstr("24 times the file's size and 256 MiB"),
                    HasSubstr("or more GraphProto.node")));
}

// Groups, which nothing writes any more, in fields that the schema does not have.
TEST(Importer, UnknownGroupsAreScannedWithoutRecursion) {
  const std::string open = "\x7b";  // of field 15
  const std::string close = "\x7c";
  std::string deep;
  for (int i = 0; i < 3'000'000; ++i) deep += open;
  const std::string tail = model(18, {.nodes = {node("Relu", {"x"}, {"y"})}});
  refusal(deep + tail);
  std::string flat;
  for (int i = 0; i < 1000; ++i) flat += open + close;
  EXPECT_EQ(import_onnx_bytes(flat + model(18, {.nodes = {node("Relu", {"x"}, {"y"})},
                                                .inputs = {value("x", kFloat, {4})},
                                                .outputs = {value("y", kFloat, {4})}}))
                .node_count(),
            1U);
}

TEST(Importer, InputsWithInitializersGetDefaultsSinceIrVersion4) {
  const GraphParts parts{.nodes = {node("Add", {"x", "w"}, {"y"})},
                         .inputs = {kX, value("w", kFloat, {3})},
                         .outputs = {kY},
                         .initializers = {floats("w", {3}, {1, 2, 3})}};
  const Graph g = import_onnx_bytes(model(18, parts));
  ASSERT_EQ(g.inputs().size(), 2U);
  EXPECT_EQ(g.input_defaults().at(g.inputs()[1]).data<float>()[1], 2.0F);
  const Graph old = import_onnx_bytes(model(9, parts, {}, /*ir_version=*/3));
  EXPECT_EQ(old.inputs().size(), 1U);
  EXPECT_NE(old.constant(*old.find_value("w")), nullptr);
}

TEST(Importer, SubgraphsCaptureWhatTheyRead) {
  const auto branch = [](const char* op) {
    return graph({.nodes = {node(op, {"a"}, {"r"})}, .outputs = {value("r", kFloat, {2, 3})}});
  };
  const Graph g = import_onnx_bytes(model(
      18,
      {.nodes = {node("Neg", {"x"}, {"a"}), node("If", {"c"}, {"y"},
                                                 {graph_attribute("then_branch", branch("Relu")),
                                                  graph_attribute("else_branch", branch("Abs"))},
                                                 "choose")},
       .inputs = {kX, value("c", kBool, {})},
       .outputs = {kY}}));
  const Node& node = g.node(*g.find_node("choose"));
  ASSERT_EQ(Graph::subgraphs(node).size(), 2U);
  const Graph* body = Graph::subgraphs(node)[0];
  ASSERT_EQ(body->captures().size(), 1U);
  EXPECT_EQ(body->captures()[0].outer, *g.find_value("a"));
  EXPECT_NO_THROW(verify(g));
}

TEST(Importer, InlinesFunctionsWithTheirAttributesAndOpsets) {
  // double_leaky(a) = LeakyRelu<alpha = @slope>(a) + squeezed(a), the body at an older opset.
  const Message inner =
      function("local", "Twice", {"v"}, {"w"}, {}, {node("Add", {"v", "v"}, {"w"})}, 17);
  const Message outer =
      function("local", "Leaky", {"a", "optional"}, {"b"}, {"slope"},
               {node("LeakyRelu", {"a"}, {"t"}, {attribute_reference("alpha", "slope", 1)}),
                node("Twice", {"t"}, {"u"}, {}, "", "local"),
                node("Unsqueeze", {"u"}, {"e"}, {attribute("axes", Ints{0})}),
                node("Squeeze", {"e"}, {"b"}, {attribute("axes", Ints{0})})},
               11);
  const Graph g = import_onnx_bytes(
      model(21,
            {.nodes = {node("Leaky", {"x"}, {"y"}, {attribute("slope", 0.5F)}, "call", "local")},
             .inputs = {kX},
             .outputs = {kY}},
            {inner, outer}));
  EXPECT_EQ(g.node_count(), 4U);
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
  bool found = false;
  for (const NodeId id : g.nodes()) {
    found = found || g.node(id).attr_float("alpha", 0) == 0.5F;
    if (g.node(id).op == "Squeeze") {
      EXPECT_EQ(g.node(id).inputs.size(), 2U);
    }
  }
  EXPECT_TRUE(found);
}

TEST(Importer, FunctionsThatCallThemselvesAreRefused) {
  const Message f =
      function("local", "F", {"a"}, {"b"}, {}, {node("F", {"a"}, {"b"}, {}, "", "local")}, 18);
  EXPECT_THAT(
      refusal(model(
          18,
          {.nodes = {node("F", {"x"}, {"y"}, {}, "", "local")}, .inputs = {kX}, .outputs = {kY}},
          {f})),
      HasSubstr("call itself"));
}

// Twenty functions of sixteen calls each: a million million nodes from two kilobytes.
TEST(Importer, FunctionsThatMultiplyAreBounded) {
  std::vector<Message> functions;
  for (int level = 0; level < 20; ++level) {
    const std::string callee = level == 0 ? "Neg" : "F" + std::to_string(level - 1);
    std::vector<Message> nodes;
    for (int i = 0; i < 16; ++i) {
      nodes.push_back(node(callee, {i == 0 ? "a" : "t" + std::to_string(i - 1)},
                           {i == 15 ? "b" : "t" + std::to_string(i)}, {}, "",
                           level == 0 ? "" : "local"));
    }
    functions.push_back(
        function("local", "F" + std::to_string(level), {"a"}, {"b"}, {}, nodes, 18));
  }
  refusal(
      model(
          18,
          {.nodes = {node("F19", {"x"}, {"y"}, {}, "", "local")}, .inputs = {kX}, .outputs = {kY}},
          functions),
      ErrorCode::kResource);
}

TEST(Importer, KeepsOpsOfOtherDomains) {
  const Graph g = import_onnx_bytes(model(
      18, {.nodes = {node("Magic", {"x"}, {"y"}, {attribute("k", std::int64_t{3})}, "m", "custom")},
           .inputs = {kX},
           .outputs = {kY}}));
  EXPECT_EQ(g.node(*g.find_node("m")).qualified_op(), "custom.Magic");
  EXPECT_EQ(type_of(g, "y"), "float32[2,3]");
}

TEST(Importer, SaysWhatIsWrongAndWhere) {
  const auto one = [](const Message& n) {
    return model(18, {.nodes = {n}, .inputs = {kX}, .outputs = {kY}});
  };
  EXPECT_THAT(refusal("not a model"), HasSubstr("ModelProto"));
  EXPECT_THAT(refusal(""), HasSubstr("no graph"));
  EXPECT_THAT(refusal(one(node("Relu", {"z"}, {"y"}, {}, "n"))),
              AllOf(HasSubstr("node 'n' (Relu)"), HasSubstr("'z'")));
  EXPECT_THAT(refusal(one(node("Relu", {"y"}, {"y"}, {}, "n"))), HasSubstr("not defined before"));
  EXPECT_THAT(refusal(one(node("Relu", {"x"}, {"x"}, {}, "n"))), HasSubstr("taken"));
  EXPECT_THAT(refusal(one(node("Relu", {"x"}, {"other"}))), HasSubstr("output 'y'"));
  EXPECT_THAT(refusal(one(node("Relu", {"x", "x"}, {"y"}, {}, "n"))), HasSubstr("node 'n'"));
  EXPECT_THAT(refusal(one(node("NoSuchOp", {"x"}, {"y"}, {}, "n")), ErrorCode::kUnsupported),
              HasSubstr("node 'n' (NoSuchOp)"));
  EXPECT_THAT(refusal(one(node("", {"x"}, {"y"}))), HasSubstr("names no op"));
  EXPECT_THAT(refusal(one(node("Elu", {"x"}, {"y"}, {attribute("alpha", std::int64_t{1})}, "n"))),
              HasSubstr("alpha"));
  EXPECT_THAT(
      refusal(one(node("Elu", {"x"}, {"y"}, {attribute_reference("alpha", "outer", 1)}, "n"))),
      HasSubstr("n"));
  EXPECT_THAT(refusal(model(99, {.inputs = {kX}, .outputs = {kX}}), ErrorCode::kUnsupported),
              HasSubstr("opset 99"));
}

TEST(Importer, RefusesTensorsWhoseDataDoesNotFit) {
  const auto with = [](const Message& initializer) {
    return model(18, {.nodes = {node("Relu", {"x"}, {"y"})},
                      .inputs = {kX},
                      .outputs = {kY},
                      .initializers = {initializer}});
  };
  EXPECT_THAT(refusal(with(tensor("w", kFloat, {3}, "12345678"))),
              AllOf(HasSubstr("initializer 'w'"), HasSubstr("8 bytes")));
  EXPECT_THAT(refusal(with(tensor("w", kFloat, {-1}, ""))), HasSubstr("negative"));
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(refusal(with(tensor("w", kFloat, {huge, huge}, ""))), HasSubstr("elements"));
  EXPECT_THAT(refusal(with(tensor("w", kFloat, {huge}, ""))), HasSubstr("needs"));
  EXPECT_THAT(refusal(with(tensor("w", kString, {1}, "abc"))), HasSubstr("strings"));
  EXPECT_THAT(refusal(with(external("w", kFloat, {1}, {{"location", "f"}}))),
              HasSubstr("external"));
  refusal(with(tensor("w", 77, {1}, "")), ErrorCode::kUnsupported);
}

TEST(Importer, RefusesContradictingElementTypesButNotShapes) {
  const auto declared = [](const Message& y) {
    return model(18,
                 {.nodes = {node("Relu", {"x"}, {"y"}, {}, "n")}, .inputs = {kX}, .outputs = {y}});
  };
  EXPECT_THAT(refusal(declared(value("y", kInt64, {2, 3}))),
              AllOf(HasSubstr("node 'n' (Relu)"), HasSubstr("int64[2,3]")));
  EXPECT_EQ(type_of(import_onnx_bytes(declared(value("y", kFloat, {2, 4}))), "y"), "float32[2,3]");
}

TEST(Importer, OfTwoInitializersOfOneNameTheLatterHolds) {
  const Message one = floats("w", {1}, {1}), two = floats("w", {1}, {2});
  const Graph g = import_onnx_bytes(model(18, {.nodes = {node("Add", {"x", "w"}, {"y"})},
                                               .inputs = {kX},
                                               .outputs = {kY},
                                               .initializers = {one, two, floats("", {1}, {3})}}));
  EXPECT_EQ(g.constant(*g.find_value("w"))->data<float>()[0], 2);
}

TEST(Importer, NestingOfSubgraphsIsBounded) {
  Message body = graph({.nodes = {node("Relu", {"x"}, {"r"})}, .outputs = {untyped("r")}});
  for (int i = 0; i < 60; ++i) {
    body = graph({.nodes = {node("If", {"c"}, {"r"},
                                 {graph_attribute("then_branch", body),
                                  graph_attribute("else_branch", body)})},
                  .outputs = {untyped("r")}});
    if (body.bytes().size() > (std::size_t{1} << 22)) break;  // both branches double the size
  }
  // A chain with small else branches goes deeper.
  const Message leaf = graph({.nodes = {node("Relu", {"x"}, {"r"})}, .outputs = {untyped("r")}});
  Message chain = leaf;
  for (int i = 0; i < 60; ++i) {
    chain = graph({.nodes = {node("If", {"c"}, {"r"},
                                  {graph_attribute("then_branch", chain),
                                   graph_attribute("else_branch", leaf)})},
                   .outputs = {untyped("r")}});
  }
  refusal(model(18, {.nodes = {node("If", {"c"}, {"y"},
                                    {graph_attribute("then_branch", chain),
                                     graph_attribute("else_branch", leaf)})},
                     .inputs = {kX, value("c", kBool, {})},
                     .outputs = {kY}}));
}

TEST(Importer, SparseInitializersBecomeDense) {
  const Message values = floats("s", {2}, {5, 7});
  const Message indices = tensor("", kInt64, {2}, raw<std::int64_t>({1, 3}));
  Message g = graph({.nodes = {node("Add", {"x", "s"}, {"y"})},
                     .inputs = {value("x", kFloat, {4})},
                     .outputs = {value("y", kFloat, {4})}});
  g.message(15, Message().message(1, values).message(2, indices).integer(3, 4));
  const std::string bytes = Message().integer(1, 8).message(7, g).message(8, opset("", 18)).bytes();
  const Graph graph = import_onnx_bytes(bytes);
  const Tensor* s = graph.constant(*graph.find_value("s"));
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(std::vector<float>(s->data<float>(), s->data<float>() + 4),
            (std::vector<float>{0, 5, 0, 7}));
}

TEST(Importer, MetadataIsKept) {
  const std::string bytes =
      model(18, {.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {kX}, .outputs = {kY}}) +
      Message().message(14, Message().text(1, "author").text(2, "me")).bytes();
  EXPECT_EQ(import_onnx_bytes(bytes).metadata().at("author"), "me");
}

// Every damaged byte and every cut: a graph or an xrt::Error, never anything else.
TEST(Importer, DamagedBytesAreRefusedCleanly) {
  const Message branch =
      graph({.nodes = {node("Relu", {"a"}, {"r"})}, .outputs = {value("r", kFloat, {2, 3})}});
  const std::string bytes =
      model(11, {.nodes = {node("Softmax", {"x"}, {"s"}, {attribute("axis", std::int64_t{1})}),
                           node("Clip", {"s"}, {"a"}, {}), node("Shape", {"a"}, {"h"}),
                           node("Reshape", {"a", "h"}, {"b"}),
                           node("If", {"c"}, {"i"},
                                {graph_attribute("then_branch", branch),
                                 graph_attribute("else_branch", branch)}),
                           node("Add", {"i", "w"}, {"y"})},
                 .inputs = {kX, value("c", kBool, {})},
                 .outputs = {kY},
                 .initializers = {floats("w", {3}, {1, 2, 3})}});
  ASSERT_NO_THROW(import_onnx_bytes(bytes));
  int refused = 0;
  const auto attempt = [&](const std::string& damaged) {
    try {
      import_onnx_bytes(damaged);
    } catch (const Error&) {
      ++refused;
    }
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    attempt(bytes.substr(0, i));
    for (const int flip : {1, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      attempt(damaged);
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace xrt
