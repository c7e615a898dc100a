// SPDX-License-Identifier: Apache-2.0
#include "quantize/op_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using quantization::choice_for;
using quantization::matches;
using testing::HasSubstr;

// Pairs as Python's fnmatch.fnmatchcase() judges them.
TEST(OpRules, PatternsMatchAsThoseOfFileNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_TRUE(matches("/layer?/*", "/layer1/conv/Conv"));
  EXPECT_FALSE(matches("/layer?/*", "/layer10/conv"));
  EXPECT_TRUE(matches("*ab*ab", "abaab.ab"));
  EXPECT_FALSE(matches("*ab*ab", "ab"));
  EXPECT_TRUE(matches("a**b", "ab"));
  EXPECT_FALSE(matches("a*b", "abc"));
}

TEST(OpRules, TheLastWordCounts) {
  Node node;
  node.name = "/head/Gemm";
  node.op = "Gemm";
  QuantizeOptions options;
  options.rules = {op_rule_of("Gemm=float,mse"), op_rule_of("/head/*=int8,symmetric")};
  const auto choice = choice_for(node, options);
  EXPECT_EQ(choice.int8, true);
  EXPECT_FALSE(choice.is_meant);
  EXPECT_EQ(choice.clipping, Clipping::kMse);
  EXPECT_EQ(choice.form, Activations::kSymmetric);
  options.skip = {"/head/Gemm"};
  EXPECT_EQ(choice_for(node, options).int8, false);
}

// A name may hold '='.
TEST(OpRules, TheLastSignParts) {
  const OpRule rule = op_rule_of("a=b=float");
  EXPECT_EQ(rule.pattern, "a=b");
  EXPECT_EQ(rule.int8, false);
}

TEST(OpRules, ARangeThatIsNotFiniteIsNamed) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 4}));
  Tensor w = Tensor::allocate(DType::kFloat32, {4, 1});
  for (int i = 0; i < 4; ++i) w.data<float>()[i] = 1;
  g.add_output(g.add_op("MatMul", {x, g.add_constant("w", w)}, {}, "y"));
  infer_shapes(g);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0F}) {
    try {
      Graph trial = g;
      quantize(trial, {{"x", {0, bad}}, {"y", {0, 1}}}, {});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(e.what(), HasSubstr("'x'"));
    }
  }
}

}  // namespace
}  // namespace xrt
