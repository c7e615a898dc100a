// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Text and graph say the same.
Graph round_trip(const Graph& g) {
  const std::string text = print(g, PrintOptions::exact());
  Graph back = parse_graph(text);
  EXPECT_EQ(print(back, PrintOptions::exact()), text);
  EXPECT_NO_THROW(verify(back));
  return back;
}

std::string parse_error(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    return e.what();
  }
  return "";
}

Tensor bytes_tensor(DType dtype, const Dims& dims) {
  Tensor t = Tensor::allocate(dtype, dims);
  for (std::size_t i = 0; i < t.bytes(); ++i) {
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(37 * i + 11);
  }
  return t;
}

TEST(Text, ReadsTheFormOfTheHeader) {
  const Graph g = parse_graph(R"(# a comment
    graph tiny(%x: float32[N,3], %k: int64[] = tensor int64[] {5}) -> (%y) {
      opset "" = 28
      constant %w: float32[3] = {1, 2, 0.5}
      %y: float32[N,3] = Mul(%x, %w) @scale
    })");
  EXPECT_EQ(g.inputs().size(), 2U);
  EXPECT_EQ(to_string(g.type(g.inputs()[0])), "float32[N,3]");
  EXPECT_EQ(g.input_defaults().at(g.inputs()[1]).to_int64(), std::vector<std::int64_t>{5});
  EXPECT_FLOAT_EQ(g.constant(*g.find_value("w"))->data<float>()[2], 0.5F);
  ASSERT_TRUE(g.find_node("scale"));
  EXPECT_EQ(g.node(*g.find_node("scale")).op, "Mul");
  round_trip(g);
}

TEST(Text, TypesMayBeLeftOut) {
  Graph g = parse_graph("graph g(%x: float32[2]) -> (%y) { %a = Relu(%x)  %y = Neg(%a) }");
  infer_shapes(g);
  EXPECT_EQ(to_string(g.type(g.outputs()[0])), "float32[2]");
}

TEST(Text, EveryKindOfAttributeRoundTrips) {
  Graph g("kinds");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32));
  Attributes a;
  a["int"] = std::int64_t{-7};
  a["float"] = 0.1F;
  a["whole"] = 3.0F;
  a["tiny"] = std::numeric_limits<float>::denorm_min();
  a["nan"] = nan;
  a["infinite"] = -std::numeric_limits<float>::infinity();
  a["string"] = std::string("quote \" back \\ line \n tab \t zero \0 end", 38);
  a["tensor"] = Tensor::from_int64(std::vector<std::int64_t>{1, -2});
  a["scalar"] = Tensor::scalar(2.5F);
  a["type"] = Type::sequence(Type::optional(Type::tensor(DType::kInt8, Shape{Dim("a b"), Dim()})));
  a["ints"] = std::vector<std::int64_t>{1, 2};
  a["no_ints"] = std::vector<std::int64_t>{};
  a["floats"] = std::vector<float>{1.5F, nan};
  a["strings"] = std::vector<std::string>{"a", ""};
  a["tensors"] = std::vector<Tensor>{Tensor::scalar(std::int64_t{1}), Tensor::scalar(1.0F)};
  a["types"] = std::vector<Type>{Type::tensor(DType::kBool), Type{}};
  a["a name"] = std::int64_t{1};
  g.add_node("my domain", "Op::x", {x, {}}, {"y z", "", "_"}, a, "node 1", /*omit_empty=*/true);
  const Graph back = round_trip(g);
  const Node& node = back.node(*back.find_node("node 1"));
  EXPECT_EQ(node.domain, "my domain");
  EXPECT_EQ(node.op, "Op::x");
  EXPECT_FALSE(node.inputs[1].valid());
  EXPECT_FALSE(node.outputs[1].valid());
  EXPECT_EQ(node.attr_string("string", ""), std::get<std::string>(a["string"]));
  EXPECT_TRUE(std::isnan(node.attr_float("nan", 0)));
  EXPECT_EQ(node.attr_float("tiny", 0), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(std::get<Type>(node.attributes.at("type")), std::get<Type>(a["type"]));
}

TEST(Text, ConstantsOfEveryDtypeRoundTrip) {
  Graph g("constants");
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(to_string(dtype));
    if (dtype == DType::kString) {
      g.add_constant(name, Tensor::from_strings({2}, {"a\"b", std::string("\0x", 2)}));
      continue;
    }
    for (const Dims& dims : {Dims{}, Dims{0, 3}, Dims{5}, Dims{7, 11}}) {
      g.add_constant(name, bytes_tensor(dtype, dims));
    }
  }
  const Graph back = round_trip(g);
  for (const ValueId v : g.constants()) {
    const auto same = back.find_value(g.value(v).name);
    ASSERT_TRUE(same);
    EXPECT_TRUE(g.constant(v)->identical(*back.constant(*same))) << g.value(v).name;
  }
}

TEST(Text, SubgraphsAndTheirCapturesRoundTrip) {
  Graph g("outer");
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  auto deep = std::make_shared<Graph>("deep");
  auto middle = std::make_shared<Graph>("middle");
  const ValueId in_middle = middle->add_capture(x, "x", g.type(x));
  const ValueId flag = middle->add_capture(c, "c", g.type(c));
  const ValueId in_deep = deep->add_capture(in_middle, "x inner", g.type(x));
  deep->add_output(deep->add_op("Neg", {in_deep}));
  middle->add_output(middle->add_op("If", {flag}, {{"then_branch", deep}, {"else_branch", deep}}));
  g.add_output(g.add_op("If", {c}, {{"then_branch", middle}, {"else_branch", middle}}));
  infer_shapes(g);
  const Graph back = round_trip(g);
  EXPECT_EQ(back.uses(*back.find_value("x")).size(), 1U);
}

TEST(Text, LargeConstantsAreDigestsUnlessAskedForExactly) {
  Graph g;
  g.add_constant("w", bytes_tensor(DType::kFloat32, {1000}));
  const std::string text = print(g);
  EXPECT_THAT(text, testing::HasSubstr("digest\""));
  EXPECT_LT(text.size(), 500U);
  EXPECT_THAT(parse_error(text), testing::HasSubstr("digest"));
  round_trip(g);
}

TEST(Text, ErrorsSayTheLine) {
  EXPECT_THAT(parse_error("graph g() -> () {\n  %y = Relu(%x)\n}"),
              testing::AllOf(testing::HasSubstr("line 2"), testing::HasSubstr("'x'")));
  EXPECT_THAT(parse_error("graph g() -> (%z) {\n}\n"), testing::HasSubstr("'z'"));
  EXPECT_THAT(parse_error("graph g(%x: float32[-1]) -> () {}"), testing::HasSubstr("negative"));
  EXPECT_THAT(parse_error("graph g(%x: float99[]) -> () {}"), testing::HasSubstr("float99"));
  EXPECT_THAT(parse_error("graph g(%x: int8[], %x: int8[]) -> () {}"), testing::HasSubstr("taken"));
  EXPECT_THAT(parse_error("graph g() -> () { constant %c: int32[2] = {1} }"),
              testing::HasSubstr("1 elements"));
  EXPECT_THAT(parse_error("graph g() -> () { constant %c: int32[1] = {99999999999} }"),
              testing::HasSubstr("not an integer"));
  EXPECT_THAT(parse_error("graph g() -> () { constant %c: int8[2] = hex\"0102zz\" }"),
              testing::HasSubstr("malformed"));
  EXPECT_THAT(parse_error("graph g() -> () { constant %c: int8[9999999999,9999999999] = hex\"\" }"),
              testing::HasSubstr("elements"));
  EXPECT_THAT(parse_error("graph g() -> () { capture %c: int8[] = %x }"),
              testing::HasSubstr("capture"));
  EXPECT_THAT(parse_error("graph \"g"), testing::HasSubstr("without its end"));
  EXPECT_NE(parse_error(""), "");
}

TEST(Text, NestingIsBounded) {
  std::string types = "graph g(%x: ";
  for (int i = 0; i < 100000; ++i) types += "seq(";
  EXPECT_THAT(parse_error(types), testing::HasSubstr("too deeply"));
  std::string graphs;
  for (int i = 0; i < 10000; ++i) graphs += "graph g() -> () { = Op() {a = ";
  EXPECT_THAT(parse_error(graphs), testing::HasSubstr("too deeply"));
}

// Every prefix and every deletion of one character is read or refused, nothing else.
TEST(Text, DamagedTextIsRefusedCleanly) {
  const std::string text = R"(graph t(%x: float32[N,3]) -> (%y) { opset "" = 28
    constant %w: float32[3] = {1, 2, 0.5}  constant %h: int8[2] = hex"0aff"
    %y: float32[N,3], _ = d::Mul(%x, %w, _) {a = 1, b = 0.5f, c = ints[1, 2], s = "t"} @m })";
  ASSERT_NO_THROW(parse_graph(text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const std::string& damaged : {text.substr(0, i), text.substr(0, i) + text.substr(i + 1)}) {
      try {
        parse_graph(damaged);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kInvalidModel) << damaged;
      }
    }
  }
}

// RFC 4648, section 10.
TEST(Text, Base64FollowsTheStandard) {
  EXPECT_EQ(text::to_base64(""), "");
  EXPECT_EQ(text::to_base64("f"), "Zg==");
  EXPECT_EQ(text::to_base64("fo"), "Zm8=");
  EXPECT_EQ(text::to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(text::from_base64("Zm9vYg=="), "foob");
  EXPECT_EQ(text::from_base64("Zm9vYmE="), "fooba");
  EXPECT_EQ(text::from_base64("Zm9"), std::nullopt);
  EXPECT_EQ(text::from_base64("Zm9!"), std::nullopt);
  EXPECT_EQ(text::from_base64("===="), std::nullopt);
  EXPECT_EQ(text::from_hex("0aFF"), std::string("\x0a\xff"));
  EXPECT_EQ(text::from_hex("0"), std::nullopt);
}

}  // namespace
}  // namespace xrt
