// SPDX-License-Identifier: Apache-2.0
// Ops that OpenVINO's ONNX frontend lacks or reads otherwise than the standard: what our lowerings
// and function bodies compute, and what is refused. Numbers follow from the ONNX standard's text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/canonical.h"
#include "tests/engines/openvino/engine_fixture.h"

namespace xrt {
namespace {

using namespace testing_openvino;  // NOLINT(google-build-using-namespace)
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

// A graph of one node, whose inputs are the given types.
struct One {
  Graph graph{"one"};
  NodeId node;
};

One one(const char* op, const std::vector<Type>& inputs, const std::vector<Type>& outputs,
        Attributes attributes = {}) {
  One made;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ids.push_back(made.graph.add_input("in" + std::to_string(i), inputs[i]));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) names.push_back("out" + std::to_string(i));
  made.node = made.graph.add_node("", op, ids, names, std::move(attributes));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = made.graph.node(made.node).outputs[i];
    made.graph.set_type(id, outputs[i]);
    made.graph.add_output(id);
  }
  canonicalize(made.graph);
  return made;
}

std::vector<Data> supported_and_run(const One& made, std::vector<Data> inputs) {
  const Support support = engine().supports({view_of(made.graph), made.node});
  EXPECT_TRUE(support) << support.reason();
  return run(*compile(made.graph), std::move(inputs), made.graph.outputs().size());
}

Type f32(Shape shape) { return Type::tensor(DType::kFloat32, std::move(shape)); }
Type i64(Shape shape) { return Type::tensor(DType::kInt64, std::move(shape)); }
Type u8(Shape shape) { return Type::tensor(DType::kUInt8, std::move(shape)); }

Tensor ints(std::vector<std::int64_t> values) { return Tensor::from_int64(values); }

TEST(OpenVinoLowering, TopKKeepsTheOrderOfEqualElements) {
  const auto results =
      supported_and_run(one("TopK", {f32({6}), i64({1})}, {f32({Dim()}), i64({Dim()})}),
                        {floats({6}, {1, 3, 3, 0, 3, 3}), ints({3})});
  EXPECT_THAT(values(results[0]), ElementsAre(3, 3, 3));
  EXPECT_THAT(integers(results[1]), ElementsAre(1, 2, 4));
}

TEST(OpenVinoLowering, ExtremesOfInfinitiesAreInfinite) {
  const auto lowest = std::numeric_limits<float>::lowest();
  const Tensor data = floats({3, 2}, {-kInf, -kInf, lowest, lowest, -kInf, 7});
  EXPECT_THAT(values(supported_and_run(one("ReduceMax", {f32({3, 2}), i64({1})}, {f32({3, 1})}),
                                       {data, ints({1})})[0]),
              ElementsAre(-kInf, lowest, 7));
  const Tensor other = floats({2, 2}, {kInf, kInf, kInf, -7});
  EXPECT_THAT(values(supported_and_run(one("ReduceMin", {f32({2, 2}), i64({1})}, {f32({2, 1})}),
                                       {other, ints({1})})[0]),
              ElementsAre(kInf, -7));
}

TEST(OpenVinoLowering, TileByRunTimeRepeats) {
  const auto results =
      supported_and_run(one("Tile", {f32({1, 2}), i64({2})}, {f32({Dim(), Dim()})}),
                        {floats({1, 2}, {1, 2}), ints({3, 2})});
  EXPECT_EQ(results[0].tensor().dims(), (Dims{3, 4}));
  EXPECT_THAT(values(results[0]), ElementsAre(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2));
}

TEST(OpenVinoLowering, StepsAndIndicesThatMakeNoSense) {
  const auto scalar = [](std::int64_t value) {
    Tensor made = Tensor::allocate(DType::kInt64, {});
    made.data<std::int64_t>()[0] = value;
    return made;
  };
  const One range = one("Range", {i64({}), i64({}), i64({})}, {i64({Dim()})});
  EXPECT_THAT(integers(supported_and_run(range, {scalar(3), scalar(8), scalar(0)})[0]),
              ElementsAre());
  EXPECT_THAT(integers(supported_and_run(range, {scalar(8), scalar(1), scalar(-3)})[0]),
              ElementsAre(8, 5, 2));

  Tensor index = Tensor::allocate(DType::kInt64, {1, 2});
  const Tensor data = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto gathered = [&](std::int64_t row, std::int64_t column) {
    index.data<std::int64_t>()[0] = row;
    index.data<std::int64_t>()[1] = column;
    return values(supported_and_run(one("GatherND", {f32({2, 3}), i64({1, 2})}, {f32({1})}),
                                    {data, index})[0]);
  };
  EXPECT_THAT(gathered(-1, -3), ElementsAre(4));
  EXPECT_THAT(gathered(1, 2), ElementsAre(6));
  gathered(100'000'000, -100'000'000);

  const auto scattered = [&](std::int64_t to) {
    index.data<std::int64_t>()[0] = 0;
    index.data<std::int64_t>()[1] = to;
    return values(supported_and_run(
        one("ScatterElements", {f32({2, 3}), i64({1, 2}), f32({1, 2})}, {f32({2, 3})},
            {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}}),
        {data, index, floats({1, 2}, {10, 20})})[0]);
  };
  EXPECT_THAT(scattered(-1), ElementsAre(11, 2, 23, 4, 5, 6));
  EXPECT_THROW(scattered(-100'000'000), Error);
}

TEST(OpenVinoLowering, EightBitArithmeticWrapsAround) {
  const std::vector<Data> inputs = {tensor_of<std::uint8_t>(DType::kUInt8, {3}, {200, 3, 100}),
                                    tensor_of<std::uint8_t>(DType::kUInt8, {3}, {100, 5, 3})};
  const auto result = [&](const char* op) {
    return integers(supported_and_run(one(op, {u8({3}), u8({3})}, {u8({3})}), inputs)[0]);
  };
  EXPECT_THAT(result("Add"), ElementsAre(44, 8, 103));
  EXPECT_THAT(result("Sub"), ElementsAre(100, 254, 97));
  EXPECT_THAT(result("Mul"), ElementsAre(32, 15, 44));
}

TEST(OpenVinoLowering, CastsToFloat8Saturate) {
  const auto cast = [&](DType to, std::int64_t saturate) {
    const auto results =
        supported_and_run(one("Cast", {f32({4})}, {Type::tensor(to, Shape{4})},
                              {{"to", static_cast<std::int64_t>(to)}, {"saturate", saturate}}),
                          {floats({4}, {1, 1e6, -kInf, NAN})});
    const auto* bytes = results[0].tensor().data<std::uint8_t>();
    return std::vector<int>(bytes, bytes + 4);
  };
  // Bits: sign, exponent of 4 (bias 7) or 5 (bias 15), mantissa of 3 or 2.
  const auto e4m3 = cast(DType::kFloat8E4M3FN, 1);
  EXPECT_THAT(e4m3, ElementsAre(0x38, 0x7E, 0xFE, testing::AnyOf(0x7F, 0xFF)));
  const auto e5m2 = cast(DType::kFloat8E5M2, 1);
  EXPECT_THAT(e5m2, ElementsAre(0x3C, 0x7B, 0xFB, testing::Truly([](int bits) {
                                  return (bits & 0x7C) == 0x7C && (bits & 3) != 0;
                                })));
  EXPECT_THAT(cast(DType::kFloat8E5M2, 0)[2], 0xFC);
}

TEST(OpenVinoLowering, NonMaxSuppressionKeepsABoxAtTheThreshold) {
  // The second box covers half of the union: IoU is 0.5.
  One made = one("NonMaxSuppression", {f32({1, 2, 4}), f32({1, 1, 2}), i64({1}), f32({1})},
                 {i64({Dim(), 3})});
  const std::vector<Data> inputs = {floats({1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 0.5}),
                                    floats({1, 1, 2}, {0.9, 0.8}), ints({2}), floats({1}, {0.5})};
  EXPECT_THAT(integers(supported_and_run(made, inputs)[0]), ElementsAre(0, 0, 0, 0, 0, 1));
  std::vector<Data> lower = inputs;
  lower[3] = floats({1}, {0.49F});
  EXPECT_THAT(integers(supported_and_run(made, lower)[0]), ElementsAre(0, 0, 0));
}

TEST(OpenVinoLowering, DeformConvWithoutOffsetsIsConv) {
  const auto results = supported_and_run(
      one("DeformConv", {f32({1, 1, 3, 3}), f32({1, 1, 2, 2}), f32({1, 8, 2, 2}), f32({1})},
          {f32({1, 1, 2, 2})}),
      {floats({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), floats({1, 1, 2, 2}, {1, 2, 3, 4}),
       floats({1, 8, 2, 2}, std::vector<float>(32, 0.0F)), floats({1}, {10})});
  EXPECT_THAT(values(results[0]), ElementsAre(37, 47, 67, 77));
}

TEST(OpenVinoLowering, OptionalThatIsATensor) {
  EXPECT_THAT(integers(supported_and_run(
                  one("OptionalHasElement", {f32({2})}, {Type::tensor(DType::kBool, Shape{})}),
                  {floats({2}, {1, 2})})[0]),
              ElementsAre(1));
}

// SwiGLU has no translator: it runs as its function body.
TEST(OpenVinoLowering, FunctionBodiesStandInForMissingOps) {
  One made = one("SpaceToDepth", {f32({1, 2, 2, 2})}, {f32({1, 8, 1, 1})},
                 {{"blocksize", std::int64_t{2}}, {"mode", std::string("CRD")}});
  // Depth first, as DepthToSpace in mode CRD puts them back: channel, row, column.
  EXPECT_THAT(values(supported_and_run(made, {floats({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})})[0]),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

std::string reason(const One& made) {
  return engine().supports({view_of(made.graph), made.node}).reason();
}

TEST(OpenVinoRefusal, WhatDeviatesIsLeftToOthers) {
  const Type i8 = Type::tensor(DType::kInt8, Shape{2});
  EXPECT_THAT(reason(one("BitShift", {i8, i8}, {i8}, {{"direction", std::string("RIGHT")}})),
              HasSubstr("with a sign"));
  EXPECT_THAT(reason(one("ReduceMax", {f32({2}), i64({0})}, {f32({2})},
                         {{"noop_with_empty_axes", std::int64_t{1}}})),
              HasSubstr("no elements"));
  EXPECT_THAT(reason(one("RandomUniformLike", {f32({2})}, {f32({2})})), HasSubstr("random"));
  EXPECT_THAT(reason(one("DynamicQuantizeLinear", {f32({2})}, {u8({2}), f32({}), u8({})})),
              HasSubstr("half way"));
  EXPECT_THAT(reason(one("QuantizeLinear", {f32({2}), f32({}), u8({})}, {u8({2})})),
              HasSubstr("half way"));
  EXPECT_THAT(
      reason(one("Resize", {f32({1, 1, 4, 4}), f32({8}), f32({4})}, {f32({1, 1, Dim(), Dim()})},
                 {{"mode", std::string("linear")}, {"antialias", std::int64_t{1}}})),
      HasSubstr("antialias"));
  EXPECT_THAT(reason(one("Cast", {f32({2})}, {Type::tensor(DType::kFloat64, Shape{2})},
                         {{"to", std::int64_t{11}}})),
              HasSubstr("float64"));
  EXPECT_THAT(reason(one("Cast", {Type::tensor(DType::kFloat64, Shape{2})}, {i64({2})},
                         {{"to", std::int64_t{7}}})),
              HasSubstr("float64"));
}

TEST(OpenVinoRefusal, IntegersThatFloat32CannotHold) {
  const One made = one("Equal", {i64({2}), i64({2})}, {Type::tensor(DType::kBool, Shape{2})});
  const auto executable = compile(made.graph);
  EXPECT_THAT(integers(run(*executable, {ints({5, 1 << 24}), ints({5, 3})}, 1)[0]),
              ElementsAre(1, 0));
  EXPECT_THROW(run(*executable, {ints({5, (1 << 24) + 1}), ints({5, 1 << 24})}, 1), Error);
}

}  // namespace
}  // namespace xrt
