// SPDX-License-Identifier: Apache-2.0
// Axes out of range are refused before the ONNX library's rules see them; some of those read
// outside of their memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/schema.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string refusal(const char* op, const std::vector<Type>& inputs, Attributes attributes,
                    std::size_t outputs = 1) {
  Graph g;
  std::vector<ValueId> values;
  for (const Type& type : inputs) values.push_back(g.add_input("", type));
  g.add_node("", op, values, std::vector<std::string>(outputs, "y"), std::move(attributes), "it");
  try {
    infer_shapes(g);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    return e.what();
  }
  return {};
}

TEST(Axes, OutOfRangeAreRefused) {
  const Type x = Type::tensor(DType::kFloat32, Dims{2, 3});
  const Type scale = Type::tensor(DType::kFloat32, Dims{3});
  const Type indices = Type::tensor(DType::kInt64, Dims{2, 3});
  for (const std::int64_t axis :
       {std::int64_t{100000}, kMost, kLeast, std::int64_t{2}, std::int64_t{-3}}) {
    const Attributes at{{"axis", axis}};
    for (const char* op : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ArgMax",
                           "ArgMin", "Split", "SplitToSequence", "Concat", "Unique"}) {
      EXPECT_THAT(refusal(op, {x}, at), testing::HasSubstr("'axis' names axis")) << op << axis;
    }
    for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
      EXPECT_THAT(refusal(op, {x, scale}, at), testing::HasSubstr("'axis' names axis")) << op;
    }
    for (const char* op : {"Gather", "GatherElements"}) {
      EXPECT_THAT(refusal(op, {x, indices}, at), testing::HasSubstr("'axis' names axis")) << op;
    }
    EXPECT_THAT(refusal("ScatterElements", {x, indices, x}, at),
                testing::HasSubstr("'axis' names axis"));
    EXPECT_THAT(refusal("Transpose", {x}, {{"perm", Ints{0, axis}}}), testing::HasSubstr("'perm'"));
    EXPECT_THAT(refusal("MeanVarianceNormalization", {x}, {{"axes", Ints{axis}}}),
                testing::HasSubstr("'axes' names axis"));
  }
}

TEST(Axes, TheMessageSaysTheRange) {
  const Type x = Type::tensor(DType::kFloat32, Dims{2, 3});
  EXPECT_EQ(refusal("Softmax", {x}, {{"axis", std::int64_t{2}}}),
            "node 'it' (Softmax): 'axis' names axis 2, but there are 2: it must be in [-2, 1]");
  // Flatten may put everything into one side.
  EXPECT_EQ(refusal("Flatten", {x}, {{"axis", std::int64_t{2}}}), "");
  EXPECT_THAT(refusal("Flatten", {x}, {{"axis", std::int64_t{3}}}), testing::HasSubstr("[-2, 2]"));
}

TEST(Axes, OperandsAreCheckedToo) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2, 3}));
  const ValueId axes = g.add_constant("axes", Tensor::from_int64(Ints{kMost}));
  g.add_node("", "ReduceSum", {x, axes}, {"y"});
  EXPECT_THROW(infer_shapes(g), Error);
}

TEST(Axes, OfAnIgnoredAxisNothingIsSaid) {
  const Type scalar = Type::tensor(DType::kFloat32, Dims{});
  const Type zero = Type::tensor(DType::kUInt8, Dims{});
  EXPECT_EQ(refusal("QuantizeLinear", {Type::tensor(DType::kFloat32, Dims{4}), scalar, zero}, {}),
            "");
}

TEST(Axes, LrnOfAScalarIsRefused) {
  EXPECT_THAT(refusal("LRN", {Type::tensor(DType::kFloat32, Dims{})}, {{"size", std::int64_t{3}}}),
              testing::HasSubstr("2 or more"));
}

TEST(OwnOps, HaveSchemasAndTypes) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{2, 6, Dim("H"), 9}));
  const ValueId dy = g.add_input("dy", Type::tensor(DType::kFloat32, Shape{2, 4, Dim("h"), 7}));
  const NodeId weight = g.add_node("xrt", "ConvWeightGradient", {x, dy}, {"dw", "db"},
                                   {{"kernel_shape", Ints{3, 3}}, {"group", std::int64_t{2}}});
  const NodeId pool =
      g.add_node("xrt", "MaxPoolGradient", {x, dy}, {"dx"}, {{"kernel_shape", Ints{3, 3}}});
  const NodeId after = g.add_node("xrt", "After", {x, dy}, {"again"});
  infer_shapes(g);
  EXPECT_EQ(to_string(g.type(g.node(weight).outputs[0])), "float32[4,3,3,3]");
  EXPECT_EQ(to_string(g.type(g.node(weight).outputs[1])), "float32[4]");
  EXPECT_EQ(to_string(g.type(g.node(pool).outputs[0])), "float32[2,6,H,9]");
  EXPECT_EQ(to_string(g.type(g.node(after).outputs[0])), "float32[2,6,H,9]");
  EXPECT_EQ(all_ops("xrt").size(), 5U);
  EXPECT_TRUE(is_deterministic(g.node(pool)));
}

}  // namespace
}  // namespace xrt
