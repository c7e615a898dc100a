// SPDX-License-Identifier: Apache-2.0
// Kernels against values computed here by their formulas. ONNX's own node tests are run by
// tests/conformance; these cover what those leave out: sizes past one vector or one block, element
// types by bits, bodies, values beyond ranges.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor unary(const char* op, const Tensor& x, Attributes attributes = {}) {
  Graph g;
  const ValueId v = g.add_input("x", Type::tensor(x.dtype(), x.dims()));
  g.add_output(g.add_op(op, {v}, std::move(attributes)));
  return evaluate(g, {x});
}

Tensor binary(const char* op, const Tensor& a, const Tensor& b, Attributes attributes = {}) {
  Graph g;
  const ValueId x = g.add_input("a", Type::tensor(a.dtype(), a.dims()));
  const ValueId y = g.add_input("b", Type::tensor(b.dtype(), b.dims()));
  g.add_output(g.add_op(op, {x, y}, std::move(attributes)));
  return evaluate(g, {a, b});
}

struct UnaryCase {
  const char* op;
  double (*f)(double);
  float low, high;
};

class UnaryAccuracy : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(UnaryAccuracy, WithinAFewUnitsInTheLastPlace) {
  const UnaryCase& c = GetParam();
  constexpr std::int64_t kCount = 40003;  // no multiple of a vector
  Tensor x = Tensor::allocate(DType::kFloat32, {kCount});
  for (std::int64_t i = 0; i < kCount; ++i) {
    x.data<float>()[i] =
        c.low + (c.high - c.low) * static_cast<float>(i) / static_cast<float>(kCount - 1);
  }
  const Tensor y = unary(c.op, x);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto at = static_cast<double>(x.data<float>()[i]);
    const double expected = c.f(at);
    // Functions x g(x) have g's error times x.
    ASSERT_NEAR(y.data<float>()[i], expected,
                4e-7 * std::max({1.0, std::fabs(expected), std::fabs(at)}))
        << c.op << "(" << x.data<float>()[i] << ")";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Native, UnaryAccuracy,
    ::testing::Values(
        UnaryCase{"Exp", [](double x) { return std::exp(x); }, -30, 30},
        UnaryCase{"Log", [](double x) { return std::log(x); }, 1e-6F, 50},
        UnaryCase{"Tanh", [](double x) { return std::tanh(x); }, -10, 10},
        UnaryCase{"Erf", [](double x) { return std::erf(x); }, -5, 5},
        UnaryCase{"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -40, 40},
        UnaryCase{"Softplus", [](double x) { return std::log1p(std::exp(x)); }, -30, 30},
        UnaryCase{"Gelu", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }, -6,
                  6},
        UnaryCase{"HardSwish", [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }, -6,
                  6}),
    [](const auto& info) { return std::string(info.param.op); });

TEST(NativeKernels, ExpAtTheEdges) {
  const Tensor y =
      unary("Exp", floats({6}, {kInfinity, -kInfinity, kNaN, 100.0F, -100.0F, -87.5F}));
  const std::vector<float> e = elements(y);
  EXPECT_EQ(e[0], kInfinity);
  EXPECT_EQ(e[1], 0.0F);
  EXPECT_TRUE(std::isnan(e[2]));
  EXPECT_EQ(e[3], kInfinity);
  EXPECT_NEAR(e[4] / std::exp(-100.0), 1, 2e-2);  // subnormal
  EXPECT_NEAR(e[5] / std::exp(-87.5), 1, 1e-6);
}

TEST(NativeKernels, AddBroadcastsOverSeparateAxes) {
  Tensor a = Tensor::allocate(DType::kFloat32, {3, 1, 5, 1});
  Tensor b = Tensor::allocate(DType::kFloat32, {4, 1, 2});
  for (std::int64_t i = 0; i < a.count(); ++i) a.data<float>()[i] = static_cast<float>(i);
  for (std::int64_t i = 0; i < b.count(); ++i) b.data<float>()[i] = static_cast<float>(100 * i);
  const Tensor y = binary("Add", a, b);
  ASSERT_EQ(y.dims(), (Dims{3, 4, 5, 2}));
  for (std::int64_t e = 0; e < y.count(); ++e) {
    const std::int64_t i = e / 40, j = e / 10 % 4, k = e / 2 % 5, l = e % 2;
    ASSERT_EQ(y.data<float>()[e], static_cast<float>(i * 5 + k + 100 * (j * 2 + l)));
  }
}

TEST(NativeKernels, IntegerArithmeticIsDefinedEverywhere) {
  constexpr std::int32_t kMin = INT32_MIN;
  const auto ints = [](std::vector<std::int32_t> v) {
    const auto n = static_cast<std::int64_t>(v.size());
    return tensor(DType::kInt32, {n}, v);
  };
  EXPECT_EQ(elements<std::int32_t>(binary("Div", ints({7, -7, kMin, 5}), ints({2, 2, -1, 0}))),
            (std::vector<std::int32_t>{3, -3, kMin, 0}));
  EXPECT_EQ(elements<std::int32_t>(binary("Mod", ints({7, -7, kMin, 5}), ints({3, 3, -1, 0}))),
            (std::vector<std::int32_t>{1, 2, 0, 0}));
  EXPECT_EQ(elements<std::int32_t>(binary("Mul", ints({INT32_MAX}), ints({2}))),
            (std::vector<std::int32_t>{-2}));
  EXPECT_EQ(elements<std::int32_t>(unary("Abs", ints({kMin, -3}))),
            (std::vector<std::int32_t>{kMin, 3}));
}

TEST(NativeKernels, CastRoundsHalvesToEven) {
  // 2049 lies between 2048 and 2050, 2051 between 2050 and 2052; 65520 rounds to infinity.
  const Tensor half = unary("Cast", floats({5}, {2049, 2051, 65519, 65520, 5.9604645e-8F}),
                            {{"to", static_cast<std::int64_t>(DType::kFloat16)}});
  EXPECT_EQ(elements<std::uint16_t>(half),
            (std::vector<std::uint16_t>{0x6800, 0x6802, 0x7BFF, 0x7C00, 0x0001}));
  const Tensor back = unary("Cast", half, {{"to", static_cast<std::int64_t>(DType::kFloat32)}});
  EXPECT_EQ(elements(back), (std::vector<float>{2048, 2052, 65504, kInfinity, 5.9604645e-8F}));
}

TEST(NativeKernels, CastFromFloat64RoundsOnce) {
  // Just above the middle of two halves: rounded to float first, it would be the tie.
  const std::vector<double> x{1.0 + 0x1p-11 + 0x1p-40};
  const Tensor y = unary("Cast", tensor(DType::kFloat64, {1}, x),
                         {{"to", static_cast<std::int64_t>(DType::kFloat16)}});
  EXPECT_EQ(y.data<std::uint16_t>()[0], 0x3C01);
}

TEST(NativeKernels, Float8SaturatesOnlyWhenAsked) {
  const Tensor x = floats({4}, {1000.0F, 448.0F, -0.0F, kNaN});
  const auto to = static_cast<std::int64_t>(DType::kFloat8E4M3FN);
  EXPECT_EQ(elements<std::uint8_t>(unary("Cast", x, {{"to", to}})),
            (std::vector<std::uint8_t>{0x7E, 0x7E, 0x80, 0x7F}));
  EXPECT_EQ(elements<std::uint8_t>(unary("Cast", x, {{"to", to}, {"saturate", std::int64_t{0}}})),
            (std::vector<std::uint8_t>{0x7F, 0x7E, 0x80, 0x7F}));
}

TEST(NativeKernels, PackedIntegersSurviveATranspose) {
  const std::vector<std::uint8_t> bytes{0x21, 0x43, 0x65};  // 1 2 3 4 5 6, low half first
  const Tensor x = tensor(DType::kUInt4, {2, 3}, bytes);
  const Tensor y = unary("Transpose", x);
  EXPECT_EQ(y.dims(), (Dims{3, 2}));
  EXPECT_EQ(elements<std::uint8_t>(
                Tensor::wrap(DType::kUInt8, {3}, const_cast<void*>(y.raw()), y.owner())),
            (std::vector<std::uint8_t>{0x41, 0x52, 0x63}));
}

TEST(NativeKernels, TransposeOfEveryOrder) {
  const Dims dims{5, 17, 3, 33};
  Tensor x = Tensor::allocate(DType::kInt32, dims);
  for (std::int64_t i = 0; i < x.count(); ++i) x.data<std::int32_t>()[i] = static_cast<int>(i);
  std::vector<std::int64_t> perm{0, 1, 2, 3};
  do {
    const Tensor y = unary("Transpose", x, {{"perm", perm}});
    Dims at(4);
    for (std::int64_t e = 0; e < y.count(); ++e) {
      std::int64_t rest = e;
      for (std::size_t a = 4; a-- > 0;) {
        at[perm[a]] = rest % y.dims()[a];
        rest /= y.dims()[a];
      }
      const std::int64_t source = ((at[0] * 17 + at[1]) * 3 + at[2]) * 33 + at[3];
      ASSERT_EQ(y.data<std::int32_t>()[e], source);
    }
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(NativeKernels, SliceBackwardsAndPastTheEnds) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kInt64, Dims{6}));
  const auto c = [&](std::int64_t v) { return g.add_constant("", int64s({1}, {v})); };
  g.add_output(g.add_op("Slice", {x, c(100), c(INT64_MIN), c(0), c(-2)}));
  EXPECT_EQ(elements<std::int64_t>(evaluate(g, {int64s({6}, {0, 1, 2, 3, 4, 5})})),
            (std::vector<std::int64_t>{5, 3, 1}));
}

TEST(NativeKernels, ReduceOverSeparateAxes) {
  Tensor x = Tensor::allocate(DType::kFloat32, {7, 50, 9});
  for (std::int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = static_cast<float>(i % 11);
  const Tensor y = binary("ReduceSum", x, int64s({2}, {0, -1}), {{"keepdims", std::int64_t{0}}});
  ASSERT_EQ(y.dims(), (Dims{50}));
  for (std::int64_t j = 0; j < 50; ++j) {
    float expected = 0;
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t k = 0; k < 9; ++k)
        expected += static_cast<float>(((i * 50 + j) * 9 + k) % 11);
    }
    ASSERT_EQ(y.data<float>()[j], expected);
  }
}

TEST(NativeKernels, ReduceOverAMiddleAxis) {
  Tensor x = Tensor::allocate(DType::kFloat32, {3, 6, 2500});
  for (std::int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = static_cast<float>(i * 7 % 101);
  const Tensor axis = int64s({1}, {1});
  const Tensor mean = binary("ReduceMean", x, axis);
  const Tensor highest = binary("ReduceMax", x, axis);
  ASSERT_EQ(mean.dims(), (Dims{3, 1, 2500}));
  for (std::int64_t e = 0; e < mean.count(); ++e) {
    float sum = 0;
    float best = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      const float v = x.data<float>()[(e / 2500 * 6 + i) * 2500 + e % 2500];
      sum += v;
      best = std::max(best, v);
    }
    ASSERT_NEAR(mean.data<float>()[e], sum / 6, 1e-4);
    ASSERT_EQ(highest.data<float>()[e], best);
  }
}

TEST(NativeKernels, SoftmaxOfLargeNumbers) {
  const Tensor y = unary("Softmax", floats({1, 3}, {1000.0F, 1000.0F, -kInfinity}));
  EXPECT_EQ(elements(y), (std::vector<float>{0.5F, 0.5F, 0.0F}));
}

TEST(NativeKernels, MatMulInDoubleMatchesTheFormula) {
  Tensor a = Tensor::allocate(DType::kFloat64, {2, 1, 3, 4});
  Tensor b = Tensor::allocate(DType::kFloat64, {5, 4, 2});
  for (std::int64_t i = 0; i < a.count(); ++i) a.data<double>()[i] = static_cast<double>(i % 7);
  for (std::int64_t i = 0; i < b.count(); ++i) b.data<double>()[i] = static_cast<double>(i % 5);
  const Tensor y = binary("MatMul", a, b);
  ASSERT_EQ(y.dims(), (Dims{2, 5, 3, 2}));
  for (std::int64_t e = 0; e < y.count(); ++e) {
    const std::int64_t n = e % 2, m = e / 2 % 3, j = e / 6 % 5, i = e / 30;
    double expected = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      expected += a.data<double>()[i * 12 + m * 4 + k] * b.data<double>()[j * 8 + k * 2 + n];
    }
    ASSERT_EQ(y.data<double>()[e], expected);
  }
}

TEST(NativeKernels, LstmStepMatchesItsEquations) {
  // One step, one unit: i, o, f, c = 1, 2, 3, 4 times x, no recurrence.
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 1, 1}));
  const ValueId w = g.add_constant("w", floats({1, 4, 1}, {1, 2, 3, 4}));
  const ValueId r = g.add_constant("r", floats({1, 4, 1}, {0, 0, 0, 0}));
  const NodeId node =
      g.add_node("", "LSTM", {x, w, r}, {"y", "h", "c"}, {{"hidden_size", std::int64_t{1}}});
  for (const ValueId v : g.node(node).outputs) g.add_output(v);
  const std::vector<Data> out = run(*compile(g), {floats({1, 1, 1}, {0.5F})}, 3);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double cell = sigmoid(0.5) * std::tanh(2.0);
  EXPECT_NEAR(out[2].tensor().data<float>()[0], cell, 1e-6);
  EXPECT_NEAR(out[1].tensor().data<float>()[0], sigmoid(1.0) * std::tanh(cell), 1e-6);
  EXPECT_EQ(out[0].tensor().dims(), (Dims{1, 1, 1, 1}));
}

TEST(NativeKernels, IfReadsWhatItCaptures) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const auto branch = [&](const char* op) {
    auto body = std::make_shared<Graph>(op);
    const ValueId inner = body->add_capture(x, "inner", Type::tensor(DType::kFloat32, Dims{2}));
    body->add_output(body->add_op(op, {inner}));
    return body;
  };
  const NodeId node = g.add_node("", "If", {c}, {"y"},
                                 {{"then_branch", branch("Neg")}, {"else_branch", branch("Abs")}});
  g.add_output(g.node(node).outputs[0]);
  const auto executable = compile(g);
  const auto context = executable->create_context();
  for (std::uint8_t condition : {1, 0, 1}) {
    const Tensor flag = tensor(DType::kBool, {}, std::vector<std::uint8_t>{condition});
    const Tensor y = run(*executable, {flag, floats({2}, {-1, 2})}, 1, context.get())[0].tensor();
    EXPECT_EQ(elements(y),
              condition != 0 ? (std::vector<float>{1, -2}) : (std::vector<float>{1, 2}));
  }
}

TEST(NativeKernels, LoopCarriesAndCollects) {
  // v doubles five times; each value before is collected.
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1}));
  auto body = std::make_shared<Graph>("body");
  body->add_input("i", Type::tensor(DType::kInt64, Dims{}));
  const ValueId go = body->add_input("go", Type::tensor(DType::kBool, Dims{}));
  const ValueId v = body->add_input("v", Type::tensor(DType::kFloat32, Dims{1}));
  body->add_output(body->add_op("Identity", {go}));
  body->add_output(body->add_op("Add", {v, v}));
  body->add_output(body->add_op("Identity", {v}));
  const ValueId trips = g.add_constant("n", int64s({}, {5}));
  const NodeId node =
      g.add_node("", "Loop", {trips, ValueId{}, x}, {"last", "all"}, {{"body", body}});
  for (const ValueId o : g.node(node).outputs) g.add_output(o);
  const std::vector<Data> out = run(*compile(g), {floats({1}, {1})}, 2);
  EXPECT_EQ(elements(out[0].tensor()), (std::vector<float>{32}));
  EXPECT_EQ(out[1].tensor().dims(), (Dims{5, 1}));
  EXPECT_EQ(elements(out[1].tensor()), (std::vector<float>{1, 2, 4, 8, 16}));
}

TEST(NativeKernels, SequencesOutliveTheirInputs) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1}));
  const ValueId y = g.add_op("Neg", {x});
  g.add_output(g.add_op("SequenceConstruct", {x, y}));
  const auto executable = compile(g);
  const auto context = executable->create_context();
  Tensor in = floats({1}, {1});
  const std::vector<Data> first = run(*executable, {in}, 1, context.get());
  in.data<float>()[0] = 7;
  run(*executable, {in}, 1, context.get());
  ASSERT_EQ(first[0].items().size(), 2U);
  EXPECT_EQ(first[0].items()[0].tensor().data<float>()[0], 1);
  EXPECT_EQ(first[0].items()[1].tensor().data<float>()[0], -1);
}

TEST(NativeKernels, RandomNumbersFollowTheirSeed) {
  const auto draw = [](float seed, bool normal) {
    Graph g;
    const std::vector<std::int64_t> shape{20000};
    g.add_output(g.add_op(normal ? "RandomNormal" : "RandomUniform", {},
                          {{"shape", shape}, {"seed", seed}}));
    return elements(evaluate(g, {}));
  };
  EXPECT_EQ(draw(1, true), draw(1, true));
  EXPECT_NE(draw(1, true), draw(2, true));
  double mean = 0, square = 0;
  for (const float v : draw(3, true)) {
    mean += static_cast<double>(v) / 20000;
    square += static_cast<double>(v) * static_cast<double>(v) / 20000;
  }
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(square, 1, 0.05);
  double uniform_mean = 0;
  for (const float v : draw(4, false)) {
    ASSERT_GE(v, 0.0F);
    ASSERT_LT(v, 1.0F);
    uniform_mean += static_cast<double>(v) / 20000;
  }
  EXPECT_NEAR(uniform_mean, 0.5, 0.01);
}

TEST(NativeKernels, DftOfAnyLengthMatchesTheSum) {
  for (const std::int64_t n : {8, 12, 17, 1}) {
    Tensor x = Tensor::allocate(DType::kFloat32, {1, n, 1});
    for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>((i * i) % 5);
    Graph g;
    const ValueId v = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, n, 1}));
    g.add_output(g.add_op("DFT", {v}));
    const Tensor y = evaluate(g, {x});
    ASSERT_EQ(y.dims(), (Dims{1, n, 2}));
    for (std::int64_t f = 0; f < n; ++f) {
      double real = 0, imaginary = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double angle = -2 * M_PI * static_cast<double>(f * i) / static_cast<double>(n);
        real += static_cast<double>(x.data<float>()[i]) * std::cos(angle);
        imaginary += static_cast<double>(x.data<float>()[i]) * std::sin(angle);
      }
      EXPECT_NEAR(y.data<float>()[2 * f], real, 1e-4) << n;
      EXPECT_NEAR(y.data<float>()[2 * f + 1], imaginary, 1e-4) << n;
    }
  }
}

TEST(NativeEngine, SaysWhyItRefuses) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kString, Dims{1}));
  const NodeId node = g.add_node("", "Exp", {x}, {"y"});
  const Support support = engine().supports({view_of(g), node});
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason().find("string"), std::string::npos) << support.reason();
  const NodeId unknown = g.add_node("com.example", "Frobnicate", {x}, {"z"});
  EXPECT_FALSE(engine().supports({view_of(g), unknown}));
}

}  // namespace
}  // namespace xrt
