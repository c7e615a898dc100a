// SPDX-License-Identifier: Apache-2.0
#include "frontends/oneflow/mlir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "xrt/error.h"

namespace xrt::oneflow {
namespace {

using testing::HasSubstr;

// A job with this body.
std::string job(const std::string& body, const std::string& returned = "%x : tensor<2xf32>") {
  return "module {\n  oneflow.job @J(%x: tensor<2xf32>) -> tensor<2xf32> {\n" + body +
         "\n    oneflow.return " + returned + "\n  }\n}\n";
}

std::string refusal(const std::string& text) {
  try {
    parse_job(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "the text was accepted: " << text;
  return "";
}

// The attribute `a` of one operation.
Attribute attribute(const std::string& text) {
  const Job parsed = parse_job(job("\"d.op\"() {a = " + text + "} : () -> ()"));
  return parsed.operations.at(0).attributes.at("a");
}

std::vector<std::int64_t> integers(const Attribute& list) {
  std::vector<std::int64_t> numbers;
  for (const Attribute& item : std::get<AttributeList>(list.value)) {
    numbers.push_back(std::get<std::int64_t>(item.value));
  }
  return numbers;
}

TEST(Mlir, ReadsOperationsAndTypes) {
  const Job parsed = parse_job(job(R"(
    %a, %b:2 = "d.three"(%x) {s = "t\22\0A"} : (tensor<2xf32>)
        -> (tensor<f16>, tensor<?x3xsi64>, tensor<*xi1>)  // a comment
    %c = "d.use"(%b#1, %a) : (tensor<*xi1>, tensor<f16>) -> tensor<2xf32> loc("f.py":1:2))",
                                   "%c : tensor<2xf32>"));
  EXPECT_EQ(parsed.name, "J");
  ASSERT_EQ(parsed.operations.size(), 2U);
  const Operation& three = parsed.operations[0];
  EXPECT_EQ(three.name, "d.three");
  EXPECT_EQ(three.place.line, 4);
  EXPECT_EQ(std::get<std::string>(three.attributes.at("s").value), "t\"\n");
  ASSERT_EQ(three.results.size(), 3U);
  const auto type = [&](std::size_t i) {
    return xrt::to_string(parsed.values[static_cast<std::size_t>(three.results[i])]);
  };
  EXPECT_EQ(type(0), "float16[]");
  EXPECT_EQ(type(1), "int64[?,3]");
  EXPECT_EQ(type(2), "bool[*]");
  EXPECT_EQ(parsed.operations[1].operands,
            (std::vector<std::int32_t>{three.results[2], three.results[0]}));
  EXPECT_EQ(parsed.returned, parsed.operations[1].results);
}

TEST(Mlir, ReadsTheGenericFormOfModuleAndJob) {
  const Job parsed = parse_job(R"(
#map = affine_map<(d0) -> (d0)>
"builtin.module"() ({
  "oneflow.job"() ({
  ^bb0(%x: tensor<2xf32>):
    %y = "d.op"(%x) <{p = 1 : i32}> {q = #d.r<[] -> [[#d.s]]>} : (tensor<2xf32>) -> tensor<2xf32>
    "oneflow.return"(%y) : (tensor<2xf32>) -> ()
  }) {function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = "G"} : () -> ()
}) : () -> ())");
  EXPECT_EQ(parsed.name, "G");
  EXPECT_EQ(parsed.arguments.size(), 1U);
  EXPECT_EQ(parsed.returned.size(), 1U);
  EXPECT_EQ(std::get<std::int64_t>(parsed.operations.at(0).attributes.at("p").value), 1);
}

TEST(Mlir, ReadsAttributes) {
  EXPECT_EQ(std::get<std::int64_t>(attribute("-3 : si64").value), -3);
  EXPECT_EQ(std::get<std::int64_t>(attribute("18446744073709551615 : ui64").value), -1);
  EXPECT_EQ(std::get<double>(attribute("9.99999974E-6 : f32").value), 9.99999974E-6);
  EXPECT_EQ(std::get<double>(attribute("2 : f32").value), 2.0);
  EXPECT_EQ(std::get<double>(attribute("0xFF800000 : f32").value),
            -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::get<bool>(attribute("true").value));
  EXPECT_EQ(integers(attribute("[1 : si32, 2 : si32]")), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(integers(attribute("dense<[1, 0]> : vector<2xi32>")),
            (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(integers(attribute("dense<7> : vector<3xi32>")), (std::vector<std::int64_t>{7, 7, 7}));
  EXPECT_EQ(integers(attribute("array<i32: 4, 5>")), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(std::get<OpaqueText>(attribute("#sbp.parallel<[] -> [[#sbp.B]]>").value).text,
            "#sbp.parallel<[] -> [[#sbp.B]]>");
  EXPECT_TRUE(std::holds_alternative<OpaqueText>(attribute("{k = @f::@g}").value));
}

TEST(Mlir, ErrorsNameLineAndColumn) {
  EXPECT_THAT(refusal(job("    %y = \"d.op\"(%z) : (f32) -> f32")),
              HasSubstr("line 3, column 17: '%z' is used before it is defined"));
  EXPECT_THAT(refusal(job("    %x = \"d.op\"() : () -> f32")),
              HasSubstr("line 3, column 6: '%x' is defined twice"));
  EXPECT_THAT(refusal(job("\"d.op\"(%x) : (tensor<3xf32>) -> ()")),
              HasSubstr("operand 0 is said to be float32[3], but is float32[2]"));
  EXPECT_THAT(refusal(job("\"d.op\"(%x) : () -> ()")), HasSubstr("1 operands, but 0 types"));
  EXPECT_THAT(refusal(job("%a, %b = \"d.op\"() : () -> f32")), HasSubstr("2 results are named"));
  EXPECT_THAT(refusal(job("\"d.op\"() {a = \"x} : () -> ()")),
              HasSubstr("line 3, column 15: this string has no end"));
  EXPECT_THAT(refusal(job("\"d.op\"() {a = 1, a = 2} : () -> ()")), HasSubstr("given twice"));
  EXPECT_THAT(refusal(job("\"d.op\"() {a = dense<1> : vector<9999999999xi32>} : () -> ()")),
              HasSubstr("9999999999 equal elements are too many"));
  EXPECT_THAT(refusal(job("\"d.op\"() {a = dense<[1, 2]> : vector<3xi32>} : () -> ()")),
              HasSubstr("2 elements are given"));
  EXPECT_THAT(refusal(job("\"d.op\"() : () -> tensor<2xfoo>")), HasSubstr("'foo' is not a type"));
  EXPECT_THAT(refusal(job("\"d.op\"() ({ }) : () -> ()")), HasSubstr("regions are not read"));
  EXPECT_THAT(refusal("module {"), HasSubstr("the module has no end"));
  EXPECT_THAT(refusal("module {}"), HasSubstr("no oneflow.job"));
  EXPECT_THAT(refusal(""), HasSubstr("no oneflow.job"));
  EXPECT_THAT(refusal(job("") + job("")), HasSubstr("a second oneflow.job"));
}

TEST(Mlir, NestingIsBounded) {
  const std::string deep(100000, '[');
  EXPECT_THAT(refusal(job("\"d.op\"() {a = " + deep)), HasSubstr("nested too deep"));
  EXPECT_THAT(refusal(job("\"d.op\"() {a = #d.x<" + deep)), HasSubstr("nested too deep"));
  EXPECT_THAT(refusal(job("\"d.op\"() : () -> " + std::string(100000, '('))),
              HasSubstr("nested too deep"));
  std::string modules;
  for (int i = 0; i < 100000; ++i) modules += "module {";
  EXPECT_THAT(refusal(modules), HasSubstr("nested too deep"));
}

// Every prefix of a job is refused, without a crash.
TEST(Mlir, TruncatedTextsAreRefused) {
  const std::string text = job(R"(%y = "d.op"(%x) {a = [1 : si32, dense<[1]> : vector<1xi8>], b =
    #p.q<[] -> [#r]>, c = "s"} : (tensor<2xf32>) -> tensor<?xf32>)");
  parse_job(text);
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_THROW(parse_job(text.substr(0, length)), Error) << length;
  }
}

}  // namespace
}  // namespace xrt::oneflow
