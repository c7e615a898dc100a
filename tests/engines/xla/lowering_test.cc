// SPDX-License-Identifier: Apache-2.0
// Lowerings that rewrite their op: convolutions in another layout, resizing by matrices, loops.
// Every expected value comes from a direct loop over the op's definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/canonical.h"
#include "tests/support/engine_calls.h"
#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {
namespace {

Type f32(Dims dims) { return Type::tensor(DType::kFloat32, dims); }

// Numbers in [-0.5, 0.5) that differ from place to place.
Tensor noise(Dims dims, std::uint32_t seed) {
  Tensor out = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < out.count(); ++i) {
    seed = seed * 1664525U + 1013904223U;
    out.data<float>()[i] = static_cast<float>(seed >> 8 & 0xFFFF) / 65536.0F - 0.5F;
  }
  return out;
}

std::vector<Data> compile_and_run(Graph g, const std::vector<Data>& inputs) {
  canonicalize(g);
  const auto engine = get_engine("xla");
  for (const NodeId id : g.nodes()) {
    const Support answer = engine->supports({view_of(g), id});
    EXPECT_TRUE(answer) << g.node(id).op << ": " << answer.reason();
  }
  const Function function = function_of("f", g);
  CompileOptions options;
  options.num_threads = 2;
  std::vector<Data> outputs(g.outputs().size());
  run_once(*engine->compile(function, options), nullptr, inputs, outputs);
  return outputs;
}

void expect_near(const Tensor& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.count(), static_cast<std::int64_t>(want.size()));
  for (std::int64_t i = 0; i < got.count(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], want[static_cast<std::size_t>(i)], tolerance) << "at " << i;
  }
}

struct ConvCase {
  std::int64_t channels, outputs, groups, size, kernel, stride, dilation, pad;
  bool constant_kernel;
};

class ConvTest : public testing::TestWithParam<ConvCase> {};

TEST_P(ConvTest, AgreesWithItsDefinition) {
  const ConvCase p = GetParam();
  const std::int64_t each = p.channels / p.groups;
  const std::int64_t out = (p.size + 2 * p.pad - (p.kernel - 1) * p.dilation - 1) / p.stride + 1;
  const Tensor x = noise({2, p.channels, p.size, p.size}, 1);
  const Tensor w = noise({p.outputs, each, p.kernel, p.kernel}, 2);
  const Tensor bias = noise({p.outputs}, 3);
  Graph g;
  const ValueId x_id = g.add_input("x", f32(x.dims()));
  const ValueId w_id = p.constant_kernel ? g.add_constant("w", w) : g.add_input("w", f32(w.dims()));
  const ValueId y = g.add_op("Conv", {x_id, w_id, g.add_constant("b", bias)},
                             {{"group", p.groups},
                              {"strides", std::vector<std::int64_t>{p.stride, p.stride}},
                              {"dilations", std::vector<std::int64_t>{p.dilation, p.dilation}},
                              {"pads", std::vector<std::int64_t>{p.pad, p.pad, p.pad, p.pad}}});
  g.set_type(y, f32({2, p.outputs, out, out}));
  g.add_output(y);
  std::vector<Data> inputs{x};
  if (!p.constant_kernel) inputs.emplace_back(w);
  const std::vector<Data> got = compile_and_run(g, inputs);

  std::vector<double> want;
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t o = 0; o < p.outputs; ++o) {
      const std::int64_t first = o / (p.outputs / p.groups) * each;
      for (std::int64_t i = 0; i < out; ++i) {
        for (std::int64_t j = 0; j < out; ++j) {
          double sum = bias.data<float>()[o];
          for (std::int64_t c = 0; c < each; ++c) {
            for (std::int64_t a = 0; a < p.kernel; ++a) {
              for (std::int64_t b = 0; b < p.kernel; ++b) {
                const std::int64_t r = i * p.stride - p.pad + a * p.dilation;
                const std::int64_t s = j * p.stride - p.pad + b * p.dilation;
                if (r < 0 || s < 0 || r >= p.size || s >= p.size) continue;
                sum +=
                    static_cast<double>(
                        x.data<float>()[((n * p.channels + first + c) * p.size + r) * p.size + s]) *
                    w.data<float>()[((o * each + c) * p.kernel + a) * p.kernel + b];
              }
            }
          }
          want.push_back(sum);
        }
      }
    }
  }
  expect_near(got[0].tensor(), want, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvTest,
                         testing::Values(ConvCase{3, 16, 1, 9, 3, 2, 1, 1, true},
                                         ConvCase{8, 8, 1, 7, 3, 1, 2, 2, true},
                                         ConvCase{8, 12, 4, 6, 3, 1, 1, 1, true},
                                         ConvCase{8, 8, 8, 8, 3, 2, 1, 1, true},
                                         ConvCase{4, 12, 4, 8, 5, 1, 1, 2, true},
                                         ConvCase{16, 32, 1, 5, 1, 1, 1, 0, true},
                                         ConvCase{3, 4, 1, 8, 3, 1, 1, 1, false}));

// A value stays in one layout through a block and comes out in ONNX's order.
TEST(XlaLayoutTest, ResidualBlockComesOutInOnnxOrder) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 4, 3, 5}));
  const ValueId one = g.add_op("Conv", {x, g.add_constant("w", noise({4, 4, 1, 1}, 5))});
  g.set_type(one, f32({1, 4, 3, 5}));
  const ValueId sum = g.add_op("Add", {one, x});
  g.set_type(sum, f32({1, 4, 3, 5}));
  const ValueId top = g.add_op(
      "ReduceMax", {sum, g.add_constant("a", Tensor::from_int64(std::vector<std::int64_t>{3}))},
      {{"keepdims", std::int64_t{0}}});
  g.set_type(top, f32({1, 4, 3}));
  g.add_output(sum);
  g.add_output(top);
  const Tensor in = noise({1, 4, 3, 5}, 6);
  const std::vector<Data> got = compile_and_run(g, {in});
  const Tensor w = noise({4, 4, 1, 1}, 5);
  std::vector<double> sums;
  std::vector<double> tops;
  for (std::int64_t c = 0; c < 4; ++c) {
    for (std::int64_t i = 0; i < 15; ++i) {
      double value = in.data<float>()[c * 15 + i];
      for (std::int64_t k = 0; k < 4; ++k) {
        value += static_cast<double>(in.data<float>()[k * 15 + i]) * w.data<float>()[c * 4 + k];
      }
      sums.push_back(value);
    }
    for (std::size_t row = 0; row < 3; ++row) {
      const auto first = sums.end() - 15 + static_cast<std::ptrdiff_t>(row * 5);
      tops.push_back(*std::max_element(first, first + 5));
    }
  }
  expect_near(got[0].tensor(), sums, 1e-5);
  expect_near(got[1].tensor(), tops, 1e-5);
}

TEST(XlaResizeTest, LinearHalfPixelInterpolates) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1, 1, 1, 3}));
  const std::vector<float> scales{1, 1, 1, 2};
  const ValueId y = g.add_op(
      "Resize",
      {x, ValueId{}, g.add_constant("s", Tensor::from<float>(DType::kFloat32, {4}, scales))},
      {{"mode", std::string("linear")}});
  g.set_type(y, f32({1, 1, 1, 6}));
  g.add_output(y);
  const std::vector<float> values{0, 4, 8};
  const auto got = compile_and_run(g, {Tensor::from<float>(DType::kFloat32, {1, 1, 1, 3}, values)});
  expect_near(got[0].tensor(), {0, 1, 3, 5, 7, 8}, 1e-6);
}

// Tables of places and weights are made while the engine is asked.
TEST(XlaResizeTest, AxesThatNeedLargeTablesAreRefused) {
  for (const char* mode : {"nearest", "linear"}) {
    Graph g;
    const ValueId x = g.add_input("x", f32({1, 1, 1, 3}));
    const std::vector<std::int64_t> sizes{1, 1, 1, 30'000'000'000};
    const ValueId y =
        g.add_op("Resize",
                 {x, ValueId{}, ValueId{},
                  g.add_constant("s", Tensor::from<std::int64_t>(DType::kInt64, {4}, sizes))},
                 {{"mode", std::string(mode)}});
    g.set_type(y, f32(sizes));
    g.add_output(y);
    canonicalize(g);
    const Support answer = get_engine("xla")->supports({view_of(g), g.nodes()[0]});
    EXPECT_FALSE(answer);
    EXPECT_NE(answer.reason().find("a table that is too large"), std::string::npos)
        << answer.reason();
  }
}

// Σ over five turns of a captured value, by a Loop without scan outputs.
TEST(XlaLoopTest, CarriesStateAndCaptures) {
  Graph g;
  const ValueId step = g.add_input("step", f32({2}));
  auto body = std::make_shared<Graph>("body");
  body->add_input("i", Type::tensor(DType::kInt64, Dims{}));
  const ValueId condition = body->add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId state = body->add_input("s", f32({2}));
  const ValueId inner = body->add_capture(step, "step", f32({2}));
  const ValueId next = body->add_op("Add", {state, inner});
  body->set_type(next, f32({2}));
  body->add_output(condition);
  body->add_output(next);
  const ValueId total = g.add_op(
      "Loop",
      {g.add_constant("n", Tensor::scalar(std::int64_t{5})), ValueId{},
       g.add_constant("zero", Tensor::from<float>(DType::kFloat32, {2}, std::vector<float>{0, 1}))},
      {{"body", body}});
  g.set_type(total, f32({2}));
  g.add_output(total);
  const auto got =
      compile_and_run(g, {Tensor::from<float>(DType::kFloat32, {2}, std::vector<float>{2, 3})});
  expect_near(got[0].tensor(), {10, 16}, 1e-6);
}

TEST(XlaInt4Test, PackedValuesCrossTheBorder) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kInt4, Dims{5}));
  const ValueId wide = g.add_op("Cast", {x}, {{"to", std::int64_t{6}}});
  g.set_type(wide, Type::tensor(DType::kInt32, Dims{5}));
  const ValueId back = g.add_op("Cast", {wide}, {{"to", std::int64_t{22}}});
  g.set_type(back, Type::tensor(DType::kInt4, Dims{5}));
  g.add_output(wide);
  g.add_output(back);
  Tensor in = Tensor::allocate(DType::kInt4, {5});
  const std::uint8_t bytes[] = {0x8F, 0x70, 0x03};  // -1, -8, 0, 7, 3
  std::copy(std::begin(bytes), std::end(bytes), in.data<std::uint8_t>());
  const auto got = compile_and_run(g, {in});
  const auto* values = got[0].tensor().data<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(values, values + 5),
            (std::vector<std::int32_t>{-1, -8, 0, 7, 3}));
  EXPECT_TRUE(got[1].tensor().identical(in));
}

}  // namespace
}  // namespace xrt
