// SPDX-License-Identifier: Apache-2.0
// Graphs that the engine fuses and lays out anew, against the same nodes run one at a time.
#include <random>
#include <tuple>

#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

Tensor random_tensor(Dims dims, unsigned seed, float low = -2, float high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> value(low, high);
  Tensor t = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) t.data<float>()[i] = value(generator);
  return t;
}

// A graph with the inputs it was given, and helpers to write formulas.
class Build {
 public:
  ValueId input(const Tensor& t) {
    feeds.emplace_back(t);
    return graph.add_input("", Type::tensor(t.dtype(), t.dims()));
  }
  ValueId constant(const Tensor& t) { return graph.add_constant("", t); }
  ValueId scalar(float v) { return constant(Tensor::scalar(v)); }
  ValueId op(const char* name, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const ValueId v = graph.add_op(name, std::move(inputs), std::move(attributes));
    infer_shapes(graph);
    canonicalize(graph);
    return v;
  }

  Graph graph;
  std::vector<Data> feeds;
};

// Node by node: each in a graph of its own.
std::vector<Tensor> one_at_a_time(const Graph& graph, const std::vector<Data>& feeds) {
  std::vector<Data> values(graph.value_capacity());
  for (std::size_t i = 0; i < feeds.size(); ++i) values[graph.inputs()[i].index] = feeds[i];
  for (const ValueId c : graph.constants()) values[c.index] = *graph.constant(c);
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    Graph g;
    std::vector<ValueId> inputs;
    std::vector<Data> inner;
    for (const ValueId v : node.inputs) {
      if (!v.valid()) {
        inputs.emplace_back();
        continue;
      }
      const Tensor& t = values[v.index].tensor();
      if (graph.constant(v) != nullptr) {
        inputs.push_back(g.add_constant("", t));
      } else {
        inputs.push_back(g.add_input("", Type::tensor(t.dtype(), t.dims())));
        inner.emplace_back(t);
      }
    }
    const std::vector<std::string> names(node.outputs.size());
    const NodeId copy = g.add_node(node.domain, node.op, inputs, names, node.attributes);
    for (const ValueId v : g.node(copy).outputs) g.add_output(v);
    const auto executable = compile(g);
    const auto results = run(*executable, inner, node.outputs.size());
    for (std::size_t i = 0; i < results.size(); ++i) values[node.outputs[i].index] = results[i];
  }
  std::vector<Tensor> outputs;
  for (const ValueId v : graph.outputs()) outputs.push_back(values[v.index].tensor());
  return outputs;
}

void expect_same(Build& b, float tolerance = 2e-5F) {
  const std::vector<Tensor> expected = one_at_a_time(b.graph, b.feeds);
  const auto executable = compile(b.graph);
  const auto context = executable->create_context();
  for (int round = 0; round < 2; ++round) {
    const auto actual = run(*executable, b.feeds, expected.size(), context.get());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Tensor& y = actual[i].tensor();
      ASSERT_EQ(y.dims(), expected[i].dims());
      for (std::int64_t k = 0; k < y.count(); ++k) {
        const float want = expected[i].data<float>()[k];
        ASSERT_NEAR(y.data<float>()[k], want, tolerance * std::max(1.0F, std::fabs(want)))
            << "output " << i << " element " << k;
      }
    }
  }
}

ValueId conv(Build& b, ValueId x, std::int64_t in, std::int64_t out, std::int64_t kernel,
             std::int64_t stride = 1, std::int64_t group = 1) {
  static unsigned seed = 100;
  const ValueId w =
      b.constant(random_tensor({out, in / group, kernel, kernel}, ++seed, -0.3F, 0.3F));
  const ValueId bias = b.constant(random_tensor({out}, ++seed));
  return b.op("Conv", {x, w, bias},
              {{"pads", std::vector<std::int64_t>(4, kernel / 2)},
               {"strides", std::vector<std::int64_t>{stride, stride}},
               {"group", group}});
}

TEST(DnnFusion, ResidualBlock) {
  Build b;
  const ValueId x = b.input(random_tensor({1, 16, 12, 12}, 1));
  const ValueId y = b.op("Relu", {conv(b, x, 16, 32, 3, 2)});
  const ValueId z = conv(b, y, 32, 32, 3);
  const ValueId sum = b.op("Add", {z, conv(b, x, 16, 32, 1, 2)});
  const ValueId out = b.op("Relu", {sum});
  const ValueId mean = b.op("GlobalAveragePool", {out});
  b.graph.add_output(b.op("Flatten", {mean}));
  b.graph.add_output(out);
  expect_same(b);
}

TEST(DnnFusion, EveryActivationAfterAConvolution) {
  for (const char* name : {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid",
                           "HardSwish", "Gelu", "Swish", "Clip", "Sqrt", "Exp", "Abs"}) {
    Build b;
    const ValueId x = b.input(random_tensor({1, 8, 10, 10}, 1));
    ValueId y = conv(b, x, 8, 20, 3);
    if (std::string(name) == "Sqrt") y = b.op("Abs", {y});
    if (std::string(name) == "Clip") {
      y = b.op("Clip", {y, b.scalar(-0.5F), b.scalar(1)});
    } else {
      y = b.op(name, {y});
    }
    b.graph.add_output(y);
    SCOPED_TRACE(name);
    expect_same(b);
  }
}

TEST(DnnFusion, ConstantScalesAndShiftsPerChannel) {
  Build b;
  const ValueId x = b.input(random_tensor({2, 6, 9, 9}, 1));
  ValueId y = conv(b, x, 6, 10, 3, 1, 2);
  y = b.op("Mul", {y, b.constant(random_tensor({1, 10, 1, 1}, 2))});
  y = b.op("Add", {b.constant(random_tensor({10, 1, 1}, 3)), y});
  y = b.op("Mul", {y, b.scalar(0.5F)});
  y = b.op("Relu", {y});
  b.graph.add_output(b.op("Sub", {y, b.constant(random_tensor({1, 10, 1, 1}, 4))}));
  expect_same(b);
}

TEST(DnnFusion, SqueezeAndExcite) {
  Build b;
  const ValueId x = b.input(random_tensor({1, 8, 14, 14}, 1));
  const ValueId y = b.op("HardSwish", {conv(b, x, 8, 24, 3, 1)});
  const ValueId axes = b.constant(Tensor::from_int64(std::vector<std::int64_t>{2, 3}));
  ValueId gate = b.op("ReduceMean", {y, axes}, {{"keepdims", std::int64_t{1}}});
  gate = b.op("Relu", {conv(b, gate, 24, 6, 1)});
  gate = b.op("HardSigmoid", {conv(b, gate, 6, 24, 1)});
  const ValueId scaled = b.op("Mul", {y, gate});
  b.graph.add_output(b.op("Add", {conv(b, scaled, 24, 8, 1), x}));
  expect_same(b);
}

TEST(DnnFusion, GatesWrittenOut) {
  for (const float divisor : {6.0F, 1.0F, 2.0F}) {
    Build b;
    const ValueId x = b.input(random_tensor({1, 8, 32, 32}, 1, -5, 5));
    const ValueId clip = b.op("Clip", {b.op("Add", {x, b.scalar(3)}), b.scalar(0), b.scalar(6)});
    const ValueId y = b.op("Div", {b.op("Mul", {x, clip}), b.scalar(divisor)});
    b.graph.add_output(y);
    expect_same(b);
  }
  Build b;
  const ValueId x = b.input(random_tensor({1, 8, 32, 32}, 1, -5, 5));
  b.graph.add_output(b.op("Mul", {b.op("Sigmoid", {x}), x}));
  expect_same(b);
}

TEST(DnnFusion, GeluWrittenOut) {
  for (const bool tanh : {false, true}) {
    for (const int order : {0, 1, 2, 3}) {
      Build b;
      const ValueId x = b.input(random_tensor({4, 40, 64}, 1, -4, 4));
      ValueId gate;
      if (tanh) {
        const ValueId cube =
            b.op("Mul", {x, b.op("Mul", {x, b.op("Mul", {b.scalar(0.044715F), x})})});
        gate = b.op("Tanh", {b.op("Mul", {b.scalar(0.7978846F), b.op("Add", {x, cube})})});
      } else {
        gate = b.op("Erf", {b.op("Div", {x, b.scalar(1.41421356F)})});
      }
      gate = b.op("Add", {gate, b.scalar(1)});
      ValueId y;
      if (order == 0) y = b.op("Mul", {b.op("Mul", {x, gate}), b.scalar(0.5F)});
      if (order == 1) y = b.op("Mul", {b.op("Mul", {b.scalar(0.5F), gate}), x});
      if (order == 2) y = b.op("Mul", {b.op("Mul", {x, b.scalar(0.5F)}), gate});
      if (order == 3) y = b.op("Mul", {x, gate});  // its half lies elsewhere
      b.graph.add_output(y);
      expect_same(b);
    }
  }
}

TEST(DnnFusion, AlmostAGelu) {
  Build b;
  const ValueId x = b.input(random_tensor({8, 1024}, 1));
  const ValueId other = b.input(random_tensor({8, 1024}, 2));
  const ValueId gate = b.op("Add", {b.op("Erf", {b.op("Div", {x, b.scalar(1.5F)})}), b.scalar(1)});
  b.graph.add_output(b.op("Mul", {b.op("Mul", {x, gate}), b.scalar(0.5F)}));
  const ValueId second =
      b.op("Add", {b.op("Erf", {b.op("Div", {x, b.scalar(1.41421356F)})}), b.scalar(1)});
  b.graph.add_output(b.op("Mul", {b.op("Mul", {other, second}), b.scalar(0.5F)}));
  expect_same(b);
}

TEST(DnnFusion, LayerNormWrittenOut) {
  Build b;
  const ValueId x = b.input(random_tensor({3, 7, 48}, 1));
  const ValueId axes = b.constant(Tensor::from_int64(std::vector<std::int64_t>{-1}));
  const ValueId centred = b.op("Sub", {x, b.op("ReduceMean", {x, axes})});
  const ValueId square = b.op("Pow", {centred, b.scalar(2)});
  const ValueId deviation =
      b.op("Sqrt", {b.op("Add", {b.op("ReduceMean", {square, axes}), b.scalar(1e-5F)})});
  ValueId y = b.op("Div", {centred, deviation});
  y = b.op("Mul", {y, b.constant(random_tensor({48}, 2))});
  b.graph.add_output(b.op("Add", {y, b.constant(random_tensor({48}, 3))}));
  expect_same(b);
}

TEST(DnnFusion, Attention) {
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kRows = 20;
  constexpr std::int64_t kWidth = 48;
  Build b;
  const ValueId x = b.input(random_tensor({2, kRows, kWidth}, 1));
  const ValueId mask = b.input(random_tensor({2, 1, 1, kRows}, 2));
  const ValueId shape =
      b.constant(Tensor::from_int64(std::vector<std::int64_t>{2, kRows, kHeads, kWidth / kHeads}));
  const auto project = [&](unsigned seed, std::vector<std::int64_t> perm) {
    const ValueId w = b.constant(random_tensor({kWidth, kWidth}, seed, -0.2F, 0.2F));
    const ValueId y =
        b.op("Add", {b.constant(random_tensor({kWidth}, seed + 1)), b.op("MatMul", {x, w})});
    return b.op("Transpose", {b.op("Reshape", {y, shape})}, {{"perm", std::move(perm)}});
  };
  const ValueId q = project(10, {0, 2, 1, 3});
  const ValueId k = project(20, {0, 2, 3, 1});
  const ValueId v = project(30, {0, 2, 1, 3});
  ValueId scores = b.op("Div", {b.op("MatMul", {q, k}), b.scalar(4)});
  scores = b.op("Softmax", {b.op("Add", {scores, mask})}, {{"axis", std::int64_t{-1}}});
  const ValueId mixed = b.op("Transpose", {b.op("MatMul", {scores, v})},
                             {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  const ValueId flat = b.constant(Tensor::from_int64(std::vector<std::int64_t>{2, kRows, kWidth}));
  const ValueId w = b.constant(random_tensor({kWidth, kWidth}, 40, -0.2F, 0.2F));
  const ValueId out = b.op("MatMul", {b.op("Reshape", {mixed, flat}), w});
  b.graph.add_output(b.op("Add", {out, x}));
  expect_same(b);
}

TEST(DnnFusion, GemmWithActivationAndResidual) {
  Build b;
  const ValueId x = b.input(random_tensor({5, 33}, 1));
  const ValueId w = b.constant(random_tensor({33, 33}, 2, -0.2F, 0.2F));
  const ValueId c = b.constant(random_tensor({33}, 3));
  ValueId y = b.op("Gemm", {x, w, c}, {{"transB", std::int64_t{1}}});
  y = b.op("Relu", {y});
  b.graph.add_output(b.op("Add", {y, x}));
  expect_same(b);
}

TEST(DnnFusion, AChainThatReadsItsOwnStartAgain) {
  Build b;
  const ValueId x = b.op("Relu", {b.input(random_tensor({1, 8, 32, 32}, 1))});
  ValueId y = b.op("Add", {x, b.scalar(1)});
  y = b.op("Clip", {y, b.scalar(0.5F), b.scalar(2)});
  b.graph.add_output(b.op("Mul", {x, y}));
  expect_same(b);
}

TEST(DnnFusion, OuterProducts) {
  Build b;
  const ValueId row = b.input(random_tensor({1, 1, 256}, 1));
  const ValueId column = b.input(random_tensor({1, 512, 1}, 2));
  const ValueId y = b.op("Mul", {row, column});
  b.graph.add_output(b.op("Relu", {b.op("Sub", {y, column})}));
  expect_same(b);
}

// Weights that are being trained are inputs.
TEST(DnnFusion, ConvolutionWithWeightsThatChange) {
  Build b;
  const ValueId x = b.input(random_tensor({2, 8, 7, 9}, 1));
  const ValueId w = b.input(random_tensor({16, 8, 3, 3}, 2));
  const ValueId bias = b.input(random_tensor({16}, 3));
  const ValueId residual = b.input(random_tensor({2, 16, 7, 9}, 4));
  const Attributes same{{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}};
  const ValueId conv = b.op("Conv", {x, w, bias}, same);
  b.graph.add_output(b.op("Relu", {b.op("Add", {conv, residual})}));
  expect_same(b, 2e-4F);
}

TEST(DnnFusion, GradientsOfReluInBothForms) {
  Build b;
  const ValueId y = b.input(random_tensor({2, 8, 7, 9}, 1));
  const ValueId dy = b.input(random_tensor({2, 8, 7, 9}, 2));
  const ValueId zero = b.scalar(0);
  b.graph.add_output(b.op("Where", {b.op("Greater", {y, zero}), dy, zero}));
  b.graph.add_output(b.op("Where", {b.op("LessOrEqual", {y, zero}), zero, dy}));
  // The other way round it is another function.
  b.graph.add_output(b.op("Where", {b.op("LessOrEqual", {y, zero}), dy, zero}));
  expect_same(b, 0);
}

// What comes and goes with the channels last needs no step that moves it.
TEST(DnnLayout, InputsAndOutputsWithTheChannelsLast) {
  Build b;
  const ValueId stored = b.input(random_tensor({2, 7, 9, 8}, 1));
  const Attributes first{{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}};
  const Attributes last{{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}};
  const ValueId x = b.op("Transpose", {stored}, first);
  const ValueId y = b.op("Conv", {x, b.constant(random_tensor({16, 8, 3, 3}, 2))});
  b.graph.add_output(b.op("Transpose", {b.op("Relu", {y})}, last));
  b.graph.add_output(b.op("MaxPool", {y}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}));
  b.graph.add_output(b.op("Transpose", {x}, last));
  expect_same(b, 2e-4F);
}

TEST(DnnLayout, BranchesJoinAndLeave) {
  Build b;
  const ValueId x = b.input(random_tensor({1, 3, 24, 20}, 1));
  const ValueId y = b.op("Relu", {conv(b, x, 3, 12, 3, 2)});
  const ValueId pool = b.op(
      "MaxPool", {y},
      {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}});
  const ValueId joined =
      b.op("Concat", {pool, y, conv(b, y, 12, 5, 1)}, {{"axis", std::int64_t{1}}});
  const ValueId scales = b.constant(floats({4}, {1, 1, 2, 2}));
  const ValueId larger = b.op("Resize", {joined, ValueId{}, scales},
                              {{"mode", std::string("nearest")},
                               {"coordinate_transformation_mode", std::string("asymmetric")},
                               {"nearest_mode", std::string("floor")}});
  const ValueId mixed = conv(b, larger, 29, 7, 3);
  const ValueId per_channel = b.constant(random_tensor({7, 1, 1}, 9));
  const ValueId wide = b.constant(random_tensor({20}, 10));
  b.graph.add_output(b.op("Mul", {b.op("Tanh", {b.op("Add", {mixed, wide})}), per_channel}));
  b.graph.add_output(b.op("Softmax", {joined}, {{"axis", std::int64_t{1}}}));
  b.graph.add_output(b.op("Transpose", {mixed}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}}));
  expect_same(b);
}

TEST(DnnLayout, ToASequence) {
  Build b;
  const ValueId x = b.input(random_tensor({1, 4, 8, 40}, 1));
  const ValueId y = conv(b, x, 4, 16, 3);
  const ValueId pool = b.op("AveragePool", {y},
                            {{"kernel_shape", std::vector<std::int64_t>{8, 2}},
                             {"strides", std::vector<std::int64_t>{8, 2}}});
  const ValueId axes = b.constant(Tensor::from_int64(std::vector<std::int64_t>{2}));
  const ValueId line = b.op("Squeeze", {pool, axes});
  const ValueId rows = b.op("Transpose", {line}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  const ValueId w = b.constant(random_tensor({16, 30}, 5));
  b.graph.add_output(b.op("Softmax", {b.op("MatMul", {rows, w})}, {{"axis", std::int64_t{2}}}));
  expect_same(b);
}

TEST(DnnLayout, TransposedConvolutionAndNormalisation) {
  Build b;
  const ValueId x = b.input(random_tensor({1, 6, 9, 9}, 1));
  ValueId y = conv(b, x, 6, 8, 3);
  y = b.op("BatchNormalization",
           {y, b.constant(random_tensor({8}, 2)), b.constant(random_tensor({8}, 3)),
            b.constant(random_tensor({8}, 4)), b.constant(random_tensor({8}, 5, 0.5F, 2))});
  y = b.op("LRN", {y}, {{"size", std::int64_t{3}}});
  y = b.op("ConvTranspose", {y, b.constant(random_tensor({8, 5, 2, 2}, 6))},
           {{"strides", std::vector<std::int64_t>{2, 2}}});
  b.graph.add_output(b.op("Sigmoid", {y}));
  expect_same(b);
}

// Blocks side by side, which become a product.
TEST(DnnLayout, TransposedConvolutionWithoutOverlap) {
  for (const Dims& w : {Dims{8, 3, 2, 2}, Dims{8, 1, 2, 2}, Dims{8, 5, 3, 2}, Dims{8, 2, 1, 4}}) {
    for (const bool has_bias : {false, true}) {
      Build b;
      const ValueId x = b.input(random_tensor({2, 6, 5, 7}, 1));
      std::vector<ValueId> inputs{b.op("Relu", {conv(b, x, 6, 8, 3)}),
                                  b.constant(random_tensor(w, 6))};
      if (has_bias) inputs.push_back(b.constant(random_tensor({w[1]}, 7)));
      b.graph.add_output(b.op(
          "Sigmoid",
          {b.op("ConvTranspose", inputs, {{"strides", std::vector<std::int64_t>{w[2], w[3]}}})}));
      expect_same(b);
    }
  }
}

TEST(DnnLayout, SymbolicSizes) {
  Build b;
  const Tensor feed = random_tensor({1, 3, 16, 16}, 1);
  b.feeds.emplace_back(feed);
  const ValueId x =
      b.graph.add_input("x", Type::tensor(DType::kFloat32, Shape{1, 3, Dim("H"), Dim("W")}));
  const ValueId y = b.op("Relu", {conv(b, x, 3, 8, 3)});
  const ValueId z = b.op("Add", {conv(b, y, 8, 8, 3), y});
  b.graph.add_output(b.op("Concat", {z, y}, {{"axis", std::int64_t{1}}}));
  expect_same(b);
}

// --- sizes that disagree -------------------------------------------------------------------------

// Operands of fewer or more elements than their node has a use for, before nodes that would be
// fused with it: an error, whether they are constants and whether the input's sizes are open.
// AddressSanitizer tells where more was read than there is.
class WrongSizes : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  // The node of the operands, then * 2 + 1 and Relu. The first operand is a constant.
  static void expect_refusal(const char* op, const Dims& x_dims,
                             const std::vector<Tensor>& operands,
                             const Attributes& attributes = {}) {
    const auto [open_sizes, are_constants] = GetParam();
    Build b;
    b.feeds.emplace_back(random_tensor(x_dims, 1));
    Shape shape(x_dims.begin(), x_dims.end());
    if (open_sizes) shape[x_dims.size() == 2 ? 0 : x_dims.size() - 1] = Dim("N");
    std::vector<ValueId> inputs{b.graph.add_input("x", Type::tensor(DType::kFloat32, shape))};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(are_constants || i == 0 ? b.constant(operands[i]) : b.input(operands[i]));
    }
    try {
      const ValueId y = b.op(op, inputs, attributes);
      const ValueId z = b.op("Add", {b.op("Mul", {y, b.scalar(2)}), b.scalar(1)});
      b.graph.add_output(b.op("Relu", {z}));
      evaluate(b.graph, b.feeds);
      ADD_FAILURE() << op << " takes operands that do not fit";
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << op << ": " << error.what();
    }
  }
};

TEST_P(WrongSizes, OfAConvolution) {
  const Tensor w = random_tensor({64, 3, 3, 3}, 2);
  for (const Dims& bias : {Dims{4}, Dims{128}, Dims{4, 2, 2, 2}, Dims{0}}) {
    expect_refusal("Conv", {1, 3, 8, 8}, {w, random_tensor(bias, 3)});
  }
}

TEST_P(WrongSizes, OfATransposedConvolution) {
  const Tensor w = random_tensor({3, 64, 2, 2}, 2);
  for (const Dims& bias : {Dims{4}, Dims{128}, Dims{0}}) {
    expect_refusal("ConvTranspose", {1, 3, 8, 8}, {w, random_tensor(bias, 3)},
                   {{"strides", std::vector<std::int64_t>{2, 2}}});
  }
}

TEST_P(WrongSizes, OfANormalisation) {
  const Tensor good = random_tensor({64}, 2, 0.5F, 2);
  for (const Dims& bad : {Dims{4}, Dims{128}, Dims{0}}) {
    const Tensor wrong = random_tensor(bad, 3, 0.5F, 2);
    expect_refusal("BatchNormalization", {1, 64, 4, 4}, {wrong, good, good, good});
    expect_refusal("BatchNormalization", {1, 64, 4, 4}, {good, good, good, wrong});
    expect_refusal("InstanceNormalization", {1, 64, 4, 4}, {good, wrong});
  }
}

TEST_P(WrongSizes, OfAProduct) {
  const Tensor w = random_tensor({8, 64}, 2);
  for (const Dims& bias : {Dims{4}, Dims{128}, Dims{0}}) {
    expect_refusal("Gemm", {2, 8}, {w, random_tensor(bias, 3)});
  }
}

INSTANTIATE_TEST_SUITE_P(Dnn, WrongSizes, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

}  // namespace
}  // namespace xrt
