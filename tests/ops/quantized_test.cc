// SPDX-License-Identifier: Apache-2.0
#include "ops/quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/pattern.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"

namespace xrt {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

Graph read(const std::string& text) {
  Graph graph = parse_graph(text);
  infer_shapes(graph);
  canonicalize(graph);
  infer_shapes(graph);
  return graph;
}

const Node& node_of(const Graph& graph, const char* output) {
  return *producer(graph, *graph.find_value(output));
}

// y = Clip(alpha · (DQ(x) × DQ(w)ᵀ) + beta · DQ(b) + r), quantised; %more is put behind it.
Graph product(const std::string& more = {}) {
  return read(R"(graph product(%x: uint8[4,2], %r: uint8[4,3]) -> (%y) {
    constant %sx: float32[] = {0.5}
    constant %zx: uint8[] = hex"80"
    constant %w: int8[3,2] = hex"01020304fb06"
    constant %zw: int8[3] = hex"000100"
    constant %sw: float32[3] = {0.1, 0.2, 0.3}
    constant %b: int32[3] = {10, -20, 30}
    constant %sb: float32[] = {0.01}
    constant %low: float32[] = {-1}
    constant %high: float32[] = {6}
    %dx: float32[4,2] = DequantizeLinear(%x, %sx, %zx)
    %dw: float32[3,2] = DequantizeLinear(%w, %sw, %zw) {axis = -2}
    %db: float32[3] = DequantizeLinear(%b, %sb)
    %sum: float32[4,3] = Gemm(%dx, %dw, %db) {alpha = 2.0f, beta = 3.0f, transB = 1}
    %dr: float32[4,3] = DequantizeLinear(%r, %sx, %zx)
    %total: float32[4,3] = Add(%dr, %sum)
    %clipped: float32[4,3] = Clip(%total, %low, %high)
    %y: uint8[4,3] = QuantizeLinear(%clipped, %sx, %zx)
)" + more + "}");
}

TEST(Quantized, ASumIsReadInTheUnitsOfTheModel) {
  const Graph g = product();
  const auto sum = quantised_sum(g, node_of(g, "sum"));
  ASSERT_TRUE(sum);
  EXPECT_EQ(g.value(sum->from.q).name, "x");
  EXPECT_EQ(sum->from.zero, 128);
  EXPECT_EQ(sum->axis, 0U);
  // w - zw, as ONNX's definition of DequantizeLinear has it.
  EXPECT_THAT(sum->weights.bytes.to_int64(), ElementsAre(1, 2, 2, 3, -5, 6));
  EXPECT_THAT(sum->weights.scales, ElementsAre(FloatEq(0.2F), FloatEq(0.4F), FloatEq(0.6F)));
  ASSERT_EQ(sum->bias.size(), 3U);
  EXPECT_NEAR(sum->bias[1], 3 * -20 * 0.01, 1e-6);
}

TEST(Quantized, TheChainEndsInFrontOfTheQuantizeLinear) {
  const Graph g = product();
  const SumChain chain = chain_behind(g, node_of(g, "sum"));
  EXPECT_EQ(g.value(chain.end).name, "clipped");
  EXPECT_EQ(g.value(chain.residual).name, "dr");
  EXPECT_FALSE(chain.bias.valid());
  const auto to = quantised_to(g, chain.end);
  ASSERT_TRUE(to);
  EXPECT_EQ(g.value(to->q).name, "y");
  EXPECT_FALSE(quantised_to(g, *g.find_value("total")));
}

TEST(Quantized, AValueWithTwoReadersIsInNoChain) {
  const Graph g = product("    %other: float32[4,3] = Relu(%total)\n");
  EXPECT_EQ(g.value(chain_behind(g, node_of(g, "sum")).end).name, "total");
}

TEST(Quantized, ReadersThatQuantiseOtherwiseAreNoGrid) {
  const Graph same = product("    %again: uint8[4,3] = QuantizeLinear(%clipped, %sx, %zx)\n");
  EXPECT_TRUE(quantised_to(same, *same.find_value("clipped")));
  const Graph other = product("    %again: uint8[4,3] = QuantizeLinear(%clipped, %sb, %zx)\n");
  EXPECT_FALSE(quantised_to(other, *other.find_value("clipped")));
}

TEST(Quantized, ConstantsAreDequantisedAlongTheirAxis) {
  const Graph g = product();
  const Tensor w = constant_numbers(g, *g.find_value("dw"));
  const std::vector<float> numbers(w.data<float>(), w.data<float>() + w.count());
  EXPECT_THAT(numbers, ElementsAre(FloatEq(0.1F), FloatEq(0.2F), FloatEq(0.4F), FloatEq(0.6F),
                                   FloatEq(-1.5F), FloatEq(1.8F)));
  EXPECT_FALSE(constant_numbers(g, *g.find_value("dx")).defined());
}

// Two numbers a byte, the first in the low bits; blocks of two rows, the last one cut.
TEST(Quantized, ConstantsAreDequantisedInBlocks) {
  const Graph g = read(R"(graph blocks() -> (%y) {
    constant %q: uint4[3,2] = hex"218743"
    constant %scales: float32[2,2] = {1, 10, 0.5, 2}
    constant %zeros: uint4[2,2] = hex"1031"
    %d: float32[3,2] = DequantizeLinear(%q, %scales, %zeros) {axis = 0, block_size = 2}
    %y: float32[3,2] = Relu(%d)
})");
  const Tensor numbers = dequantized(g, node_of(g, "d"));
  ASSERT_TRUE(numbers.defined());
  const std::vector<float> found(numbers.data<float>(), numbers.data<float>() + 6);
  // Rows (1, 2) and (7, 8) less (0, 1), row (3, 4) less (1, 3).
  EXPECT_THAT(found, ElementsAre(1, 10, 7, 70, 1, 2));
}

TEST(Quantized, OpsThatMoveBytes) {
  const Graph g = read(R"(graph moving(%x: float32[1,4,2,2]) -> (%d, %m, %e, %c) {
    constant %p: int64[8] = {0, 0, 1, 1, 0, 0, 1, 1}
    %d: float32[1,1,4,4] = DepthToSpace(%x) {blocksize = 2}
    %m: float32[1,4,1,1] = MaxPool(%x) {kernel_shape = ints[2, 2]}
    %e: float32[1,4,4,4] = Pad(%x, %p) {mode = "edge"}
    %c: float32[1,4,4,4] = Pad(%x, %p)
})");
  EXPECT_TRUE(moves_bytes(node_of(g, "d")));
  EXPECT_TRUE(moves_bytes(node_of(g, "m")));
  EXPECT_TRUE(moves_bytes(node_of(g, "e")));
  EXPECT_FALSE(moves_bytes(node_of(g, "c")));  // the constant is a number, no byte
}

}  // namespace
}  // namespace xrt
