// SPDX-License-Identifier: Apache-2.0
// Kernels on oneDNN against plain loops in double precision.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

Tensor random_tensor(Dims dims, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  Tensor t = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) t.data<float>()[i] = value(generator);
  return t;
}

void expect_near(const Tensor& actual, const Dims& dims, const std::vector<double>& expected,
                 double tolerance = 2e-5) {
  ASSERT_EQ(actual.dims(), dims);
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    ASSERT_NEAR(actual.data<float>()[i], expected[i],
                tolerance * std::max(1.0, std::fabs(expected[i])))
        << "element " << i;
  }
}

struct ConvCase {
  const char* name;
  Dims x, w;
  std::vector<std::int64_t> strides, pads, dilations;
  std::int64_t group = 1;
  std::string auto_pad = "NOTSET";
  bool constant_weights = true;
};

// Any number of spatial dimensions, padded up to three by ones.
std::vector<double> naive_conv(const ConvCase& c, const Tensor& x, const Tensor& w,
                               const Tensor& bias, const Dims& y) {
  const auto spatial = [](const Dims& d) {
    Dims s(d.begin() + 2, d.end());
    while (s.size() < 3) s.push_back(1);
    return s;
  };
  const Dims xs = spatial(x.dims());
  const Dims ws = spatial(w.dims());
  const Dims ys = spatial(y);
  const std::size_t n = x.rank() - 2;
  std::int64_t stride[3] = {1, 1, 1};
  std::int64_t dilation[3] = {1, 1, 1};
  std::int64_t pad[3] = {0, 0, 0};
  for (std::size_t i = 0; i < n; ++i) {
    if (!c.strides.empty()) stride[i] = c.strides[i];
    if (!c.dilations.empty()) dilation[i] = c.dilations[i];
    if (!c.pads.empty()) pad[i] = c.pads[i];
    if (c.auto_pad != "NOTSET" && c.auto_pad != "VALID") {
      const std::int64_t total = std::max<std::int64_t>(
          0, (ys[i] - 1) * stride[i] + (ws[i] - 1) * dilation[i] + 1 - xs[i]);
      pad[i] = c.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
  }
  const std::int64_t in_group = w.dims()[1];
  const std::int64_t out_group = w.dims()[0] / c.group;
  std::vector<double> result;
  for (std::int64_t b = 0; b < y[0]; ++b) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t i = 0; i < ys[0] * ys[1] * ys[2]; ++i) {
        const std::int64_t at[3] = {i / (ys[1] * ys[2]), i / ys[2] % ys[1], i % ys[2]};
        double sum = bias.data<float>()[o];
        for (std::int64_t ic = 0; ic < in_group; ++ic) {
          for (std::int64_t k = 0; k < ws[0] * ws[1] * ws[2]; ++k) {
            const std::int64_t kk[3] = {k / (ws[1] * ws[2]), k / ws[2] % ws[1], k % ws[2]};
            std::int64_t p[3];
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              p[d] = at[d] * stride[d] - pad[d] + kk[d] * dilation[d];
              inside = inside && p[d] >= 0 && p[d] < xs[d];
            }
            if (!inside) continue;
            const std::int64_t channel = o / out_group * in_group + ic;
            const std::int64_t xi =
                (((b * x.dims()[1] + channel) * xs[0] + p[0]) * xs[1] + p[1]) * xs[2] + p[2];
            const std::int64_t wi = (o * in_group + ic) * ws[0] * ws[1] * ws[2] + k;
            sum += static_cast<double>(x.data<float>()[xi]) * w.data<float>()[wi];
          }
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

class DnnConv : public ::testing::TestWithParam<ConvCase> {};

TEST_P(DnnConv, AgreesWithLoops) {
  const ConvCase& c = GetParam();
  const Tensor x = random_tensor(c.x, 1);
  const Tensor w = random_tensor(c.w, 2);
  const Tensor bias = random_tensor({c.w[0]}, 3);
  Graph g;
  std::vector<Data> feeds{x};
  std::vector<ValueId> inputs{g.add_input("x", Type::tensor(DType::kFloat32, c.x))};
  if (c.constant_weights) {
    inputs.push_back(g.add_constant("w", w));
    inputs.push_back(g.add_constant("b", bias));
  } else {
    inputs.push_back(g.add_input("w", Type::tensor(DType::kFloat32, c.w)));
    inputs.push_back(g.add_input("b", Type::tensor(DType::kFloat32, bias.dims())));
    feeds.emplace_back(w);
    feeds.emplace_back(bias);
  }
  Attributes attributes{{"group", c.group}, {"auto_pad", c.auto_pad}};
  if (!c.strides.empty()) attributes["strides"] = c.strides;
  if (!c.pads.empty()) attributes["pads"] = c.pads;
  if (!c.dilations.empty()) attributes["dilations"] = c.dilations;
  const ValueId y = g.add_op("Conv", inputs, attributes);
  g.add_output(y);
  const Tensor result = evaluate(g, feeds);
  expect_near(result, *g.type(y).static_dims(), naive_conv(c, x, w, bias, result.dims()));
}

INSTANTIATE_TEST_SUITE_P(
    Native, DnnConv,
    ::testing::Values(
        ConvCase{"dense", {2, 5, 9, 11}, {7, 5, 3, 3}, {}, {1, 1, 1, 1}, {}},
        ConvCase{"pointwise", {1, 33, 8, 8}, {17, 33, 1, 1}, {}, {}, {}},
        ConvCase{"strided", {1, 3, 23, 19}, {16, 3, 5, 3}, {2, 3}, {2, 0, 1, 2}, {}},
        ConvCase{"dilated", {1, 4, 17, 17}, {6, 4, 3, 3}, {}, {2, 2, 2, 2}, {2, 3}},
        ConvCase{"depthwise", {2, 24, 10, 10}, {24, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 24},
        ConvCase{"grouped", {1, 12, 7, 7}, {18, 4, 3, 3}, {}, {1, 1, 1, 1}, {}, 3},
        ConvCase{"multiplier", {1, 6, 7, 7}, {12, 1, 3, 3}, {}, {}, {}, 6},
        ConvCase{"line", {2, 6, 40}, {9, 6, 5}, {2}, {2, 1}, {}},
        ConvCase{"volume", {1, 3, 6, 7, 5}, {4, 3, 3, 2, 3}, {1, 2, 1}, {1, 0, 1, 1, 0, 1}, {}},
        ConvCase{"column", {1, 16, 30, 1}, {8, 16, 5, 1}, {}, {}, {}},
        ConvCase{"row", {1, 8, 1, 30}, {8, 8, 1, 5}, {1, 2}, {0, 2, 0, 2}, {}},
        ConvCase{"point", {1, 40, 1, 1}, {10, 40, 1, 1}, {}, {}, {}},
        ConvCase{"upper", {1, 4, 8, 9}, {4, 4, 2, 2}, {}, {}, {}, 1, "SAME_UPPER"},
        ConvCase{"lower", {1, 4, 8, 9}, {4, 4, 4, 2}, {2, 1}, {}, {}, 1, "SAME_LOWER"},
        ConvCase{"valid", {1, 4, 8, 9}, {4, 4, 3, 3}, {}, {}, {}, 1, "VALID"},
        ConvCase{"variable", {1, 5, 9, 9}, {8, 5, 3, 3}, {}, {}, {}, 1, "NOTSET", false},
        ConvCase{"one_out", {1, 8, 20, 20}, {1, 8, 5, 5}, {}, {2, 2, 2, 2}, {}}),
    [](const auto& param) { return param.param.name; });

TEST(DnnConvErrors, ChannelsThatDoNotFit) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{1, Dim("C"), 8, 8}));
  const ValueId w = g.add_constant("w", random_tensor({4, 3, 3, 3}, 1));
  g.add_output(g.add_op("Conv", {x, w}));
  const auto executable = compile(g);
  EXPECT_THROW(run(*executable, {random_tensor({1, 5, 8, 8}, 2)}, 1), Error);
  // The same executable still works, and keeps what it packed for a second shape.
  EXPECT_EQ(run(*executable, {random_tensor({1, 3, 8, 8}, 2)}, 1)[0].tensor().dims(),
            (Dims{1, 4, 6, 6}));
}

TEST(DnnConvErrors, WindowLargerThanTheInput) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{1, 3, Dim("H"), 8}));
  const ValueId w = g.add_constant("w", random_tensor({4, 3, 3, 3}, 1));
  g.add_output(g.add_op("Conv", {x, w}));
  const auto executable = compile(g);
  EXPECT_THROW(run(*executable, {random_tensor({1, 3, 2, 8}, 2)}, 1), Error);
}

TEST(DnnConvShapes, ManyShapesThroughOneExecutable) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{1, 4, Dim("H"), 6}));
  ConvCase c{"", {1, 4, 0, 6}, {5, 4, 3, 3}, {}, {1, 1, 1, 1}, {}};
  const Tensor w = random_tensor(c.w, 2);
  const Tensor bias = random_tensor({5}, 3);
  g.add_output(
      g.add_op("Conv", {x, g.add_constant("w", w), g.add_constant("b", bias)}, {{"pads", c.pads}}));
  const auto executable = compile(g);
  const auto context = executable->create_context();
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t h = 1; h <= 24; ++h) {
      const Tensor feed = random_tensor({1, 4, h, 6}, static_cast<unsigned>(h));
      const Tensor y = run(*executable, {feed}, 1, context.get())[0].tensor();
      expect_near(y, {1, 5, h, 6}, naive_conv(c, feed, w, bias, y.dims()));
    }
  }
}

TEST(DnnConvWeights, DenormalNumbersCountAsZero) {
  Tensor w = random_tensor({4, 3, 1, 1}, 1);
  w.data<float>()[5] = 1e-40F;
  Tensor zeroed = w.clone();
  zeroed.data<float>()[5] = 0;
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{1, 3, 4, 4}));
  g.add_output(g.add_op("Conv", {x, g.add_constant("w", w)}));
  const Tensor feed = random_tensor({1, 3, 4, 4}, 2);
  const Tensor y = evaluate(g, {feed});
  const ConvCase c{"", {1, 3, 4, 4}, {4, 3, 1, 1}, {}, {}, {}};
  expect_near(y, {1, 4, 4, 4},
              naive_conv(c, feed, zeroed, floats({4}, {0, 0, 0, 0}), {1, 4, 4, 4}));
  EXPECT_EQ(w.data<float>()[5], 1e-40F) << "the model's own weights stay as they are";
}

// --- transposed convolution ------------------------------------------------------------------

// output_shape asks for a result where there is no window.
TEST(DnnConvTranspose, OfNoElements) {
  Graph g;
  const Tensor x = Tensor::allocate(DType::kFloat32, {1, 1, 3, 0});
  Tensor w = Tensor::allocate(DType::kFloat32, {1, 2, 1, 3});
  std::fill_n(w.data<float>(), w.count(), 1.0F);
  const ValueId in = g.add_input("x", Type::tensor(DType::kFloat32, Shape{1, 1, 3, Dim("N")}));
  g.add_output(g.add_op("ConvTranspose", {in, g.add_constant("w", w)},
                        {{"output_shape", std::vector<std::int64_t>{10, 8}},
                         {"strides", std::vector<std::int64_t>{3, 2}}}));
  const Tensor y = evaluate(g, {x});
  EXPECT_EQ(y.dims(), (Dims{1, 2, 10, 8}));
  EXPECT_EQ(elements(y), std::vector<float>(160, 0.0F));
}

TEST(DnnConvTranspose, AgreesWithScattering) {
  struct Case {
    std::int64_t stride, pad, dilation, group, kernel;
  };
  for (const Case c : {Case{1, 0, 1, 1, 3},
                       {2, 0, 1, 1, 2},
                       {2, 1, 1, 1, 4},
                       {3, 1, 1, 2, 3},
                       {1, 1, 2, 1, 3},
                       {2, 0, 1, 4, 3}}) {
    const Dims xd{2, 4, 5, 6};
    const Dims wd{4, 3, c.kernel, c.kernel};
    const Tensor x = random_tensor(xd, 1);
    const Tensor w = random_tensor(wd, 2);
    const Tensor bias = random_tensor({3 * c.group}, 3);
    Graph g;
    const ValueId y = g.add_op("ConvTranspose",
                               {g.add_input("x", Type::tensor(DType::kFloat32, xd)),
                                g.add_constant("w", w), g.add_constant("b", bias)},
                               {{"strides", std::vector<std::int64_t>{c.stride, c.stride}},
                                {"pads", std::vector<std::int64_t>(4, c.pad)},
                                {"dilations", std::vector<std::int64_t>{c.dilation, c.dilation}},
                                {"group", c.group}});
    g.add_output(y);
    const Tensor result = evaluate(g, {x});
    const Dims yd = *g.type(y).static_dims();
    std::vector<double> expected(element_count(yd));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = bias.data<float>()[i / (yd[2] * yd[3]) % yd[1]];
    }
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t ic = 0; ic < 4; ++ic) {
        for (std::int64_t oc = 0; oc < 3; ++oc) {
          const std::int64_t out = ic / (4 / c.group) * 3 + oc;
          for (std::int64_t i = 0; i < 30 * c.kernel * c.kernel; ++i) {
            const std::int64_t kx = i % c.kernel;
            const std::int64_t ky = i / c.kernel % c.kernel;
            const std::int64_t px = i / (c.kernel * c.kernel) % 6;
            const std::int64_t py = i / (c.kernel * c.kernel * 6);
            const std::int64_t oy = py * c.stride - c.pad + ky * c.dilation;
            const std::int64_t ox = px * c.stride - c.pad + kx * c.dilation;
            if (oy < 0 || ox < 0 || oy >= yd[2] || ox >= yd[3]) continue;
            expected[((b * yd[1] + out) * yd[2] + oy) * yd[3] + ox] +=
                static_cast<double>(x.data<float>()[((b * 4 + ic) * 5 + py) * 6 + px]) *
                w.data<float>()[((ic * 3 + oc) * c.kernel + ky) * c.kernel + kx];
          }
        }
      }
    }
    expect_near(result, yd, expected);
  }
}

// --- multiplication --------------------------------------------------------------------------

std::vector<double> naive_matmul(const Tensor& a, const Tensor& b, const Dims& y) {
  const std::size_t rank = y.size();
  const auto padded = [&](const Dims& d) {
    Dims p(rank - d.size(), 1);
    p.insert(p.end(), d.begin(), d.end());
    return p;
  };
  const Dims ad = padded(a.dims());
  const Dims bd = padded(b.dims());
  const std::int64_t m = y[rank - 2];
  const std::int64_t n = y[rank - 1];
  const std::int64_t k = ad[rank - 1];
  std::vector<double> result(element_count(y));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(result.size()); ++i) {
    std::int64_t rest = i / (m * n);
    std::int64_t ai = 0;
    std::int64_t bi = 0;
    std::int64_t as = 1;
    std::int64_t bs = 1;
    for (std::size_t d = rank - 2; d-- > 0;) {
      const std::int64_t index = rest % y[d];
      rest /= y[d];
      ai += (ad[d] == 1 ? 0 : index) * as;
      bi += (bd[d] == 1 ? 0 : index) * bs;
      as *= ad[d];
      bs *= bd[d];
    }
    for (std::int64_t p = 0; p < k; ++p) {
      result[i] += static_cast<double>(a.data<float>()[ai * m * k + i / n % m * k + p]) *
                   b.data<float>()[bi * k * n + p * n + i % n];
    }
  }
  return result;
}

TEST(DnnMatMul, BatchesBroadcast) {
  const std::pair<Dims, Dims> cases[] = {
      {{3, 4}, {4, 5}},
      {{7, 3, 4}, {4, 5}},
      {{2, 3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {5, 4, 6}},
      {{1, 3, 33, 17}, {1, 3, 17, 9}},
      {{4, 1, 64}, {64, 30}},
      {{3, 4}, {2, 2, 4, 1}},
      {{1, 1}, {1, 1}},
  };
  for (const auto& [ad, bd] : cases) {
    for (const bool constant : {false, true}) {
      const Tensor a = random_tensor(ad, 1);
      const Tensor b = random_tensor(bd, 2);
      Graph g;
      const ValueId x = g.add_input("a", Type::tensor(DType::kFloat32, ad));
      const ValueId w =
          constant ? g.add_constant("b", b) : g.add_input("b", Type::tensor(DType::kFloat32, bd));
      const ValueId y = g.add_op("MatMul", {x, w});
      g.add_output(y);
      std::vector<Data> feeds{a};
      if (!constant) feeds.emplace_back(b);
      const Tensor result = evaluate(g, feeds);
      expect_near(result, *g.type(y).static_dims(), naive_matmul(a, b, result.dims()));
    }
  }
}

TEST(DnnMatMul, NothingToSumIsZero) {
  Graph g;
  const ValueId a = g.add_input("a", Type::tensor(DType::kFloat32, Dims{2, 0}));
  const ValueId b = g.add_input("b", Type::tensor(DType::kFloat32, Dims{0, 3}));
  g.add_output(g.add_op("MatMul", {a, b}));
  const Tensor y = evaluate(
      g, {Tensor::allocate(DType::kFloat32, {2, 0}), Tensor::allocate(DType::kFloat32, {0, 3})});
  EXPECT_EQ(elements(y), std::vector<float>(6, 0.0F));
}

TEST(DnnMatMul, InnerDimensionsThatDiffer) {
  Graph g;
  const ValueId a = g.add_input("a", Type::tensor(DType::kFloat32, Shape{2, Dim("K")}));
  const ValueId b = g.add_constant("b", random_tensor({4, 3}, 1));
  g.add_output(g.add_op("MatMul", {a, b}));
  const auto executable = compile(g);
  EXPECT_THROW(run(*executable, {random_tensor({2, 5}, 1)}, 1), Error);
}

TEST(DnnGemm, EveryTerm) {
  for (const float alpha : {1.0F, 0.5F}) {
    for (const float beta : {0.0F, 1.0F, 2.0F}) {
      for (const Dims& cd : {Dims{5}, Dims{1}, Dims{3, 1}, Dims{3, 5}}) {
        for (const bool transposed : {false, true}) {
          const Tensor a = random_tensor(transposed ? Dims{4, 3} : Dims{3, 4}, 1);
          const Tensor b = random_tensor(transposed ? Dims{5, 4} : Dims{4, 5}, 2);
          const Tensor c = random_tensor(cd, 3);
          Graph g;
          const ValueId y = g.add_op(
              "Gemm",
              {g.add_input("a", Type::tensor(DType::kFloat32, a.dims())), g.add_constant("b", b),
               g.add_input("c", Type::tensor(DType::kFloat32, cd))},
              {{"alpha", alpha},
               {"beta", beta},
               {"transA", std::int64_t{transposed}},
               {"transB", std::int64_t{transposed}}});
          g.add_output(y);
          const Tensor result = evaluate(g, {a, c});
          std::vector<double> expected;
          for (int i = 0; i < 3; ++i) {
            for (int j = 0; j < 5; ++j) {
              double sum = 0;
              for (int k = 0; k < 4; ++k) {
                sum += static_cast<double>(a.data<float>()[transposed ? k * 3 + i : i * 4 + k]) *
                       b.data<float>()[transposed ? j * 4 + k : k * 5 + j];
              }
              const int row = cd.size() == 2 ? i : 0;
              const int column = cd.back() == 1 ? 0 : j;
              expected.push_back(alpha * sum + beta * c.data<float>()[row * cd.back() + column]);
            }
          }
          expect_near(result, {3, 5}, expected);
        }
      }
    }
  }
}

// Elements of bfloat16 are the upper halves of floats.
Tensor to_bfloat16(const Tensor& t) {
  Tensor half = Tensor::allocate(DType::kBFloat16, t.dims());
  for (std::int64_t i = 0; i < t.count(); ++i) {
    half.data<std::uint16_t>()[i] =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(t.data<float>()[i]) >> 16);
  }
  return half;
}

Tensor from_bfloat16(const Tensor& half) {
  Tensor t = Tensor::allocate(DType::kFloat32, half.dims());
  for (std::int64_t i = 0; i < t.count(); ++i) {
    t.data<float>()[i] = std::bit_cast<float>(std::uint32_t{half.data<std::uint16_t>()[i]} << 16);
  }
  return t;
}

TEST(DnnBFloat16, ProductsAndConvolutions) {
  const Tensor a = to_bfloat16(random_tensor({2, 9, 40}, 1));
  const Tensor b = to_bfloat16(random_tensor({40, 12}, 2));
  Graph g;
  const ValueId y = g.add_op(
      "MatMul", {g.add_input("a", Type::tensor(a.dtype(), a.dims())), g.add_constant("b", b)});
  g.add_output(y);
  const Tensor product = evaluate(g, {a});
  ASSERT_EQ(product.dtype(), DType::kBFloat16);
  expect_near(from_bfloat16(product), {2, 9, 12},
              naive_matmul(from_bfloat16(a), from_bfloat16(b), {2, 9, 12}), 8e-3);

  const ConvCase c{"", {1, 6, 8, 8}, {10, 6, 3, 3}, {}, {1, 1, 1, 1}, {}};
  const Tensor x = to_bfloat16(random_tensor(c.x, 3));
  const Tensor w = to_bfloat16(random_tensor(c.w, 4));
  Graph h;
  h.add_output(h.add_op("Conv",
                        {h.add_input("x", Type::tensor(x.dtype(), c.x)), h.add_constant("w", w)},
                        {{"pads", c.pads}}));
  const Tensor z = evaluate(h, {x});
  const Tensor none = floats({10}, std::vector<float>(10, 0.0F));
  expect_near(from_bfloat16(z), {1, 10, 8, 8},
              naive_conv(c, from_bfloat16(x), from_bfloat16(w), none, {1, 10, 8, 8}), 8e-3);
}

// --- pools, normalisations, joins ------------------------------------------------------------

TEST(DnnPool, WindowsThatHangOver) {
  const Tensor x = random_tensor({1, 3, 10, 7}, 1);
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const std::int64_t ceil : {0, 1}) {
      for (const std::int64_t count : {0, 1}) {
        const bool max = std::string(op) == "MaxPool";
        if (max && count == 1) continue;
        Graph g;
        Attributes attributes{{"kernel_shape", std::vector<std::int64_t>{3, 2}},
                              {"strides", std::vector<std::int64_t>{2, 3}},
                              {"pads", std::vector<std::int64_t>{1, 0, 1, 1}},
                              {"ceil_mode", ceil}};
        if (!max) attributes["count_include_pad"] = count;
        const ValueId y =
            g.add_op(op, {g.add_input("x", Type::tensor(DType::kFloat32, x.dims()))}, attributes);
        g.add_output(y);
        const Tensor result = evaluate(g, {x});
        const Dims yd = *g.type(y).static_dims();
        std::vector<double> expected;
        for (std::int64_t c = 0; c < 3; ++c) {
          for (std::int64_t i = 0; i < yd[2]; ++i) {
            for (std::int64_t j = 0; j < yd[3]; ++j) {
              double best = -1e30;
              double sum = 0;
              int inside = 0;
              int counted = 0;
              for (std::int64_t di = 0; di < 3; ++di) {
                for (std::int64_t dj = 0; dj < 2; ++dj) {
                  const std::int64_t py = i * 2 - 1 + di;
                  const std::int64_t px = j * 3 + dj;
                  if (py <= 10 && px <= 7) ++counted;
                  if (py < 0 || py >= 10 || px >= 7) continue;
                  const double v = x.data<float>()[(c * 10 + py) * 7 + px];
                  best = std::max(best, v);
                  sum += v;
                  ++inside;
                }
              }
              expected.push_back(max ? best : sum / (count == 1 ? counted : inside));
            }
          }
        }
        expect_near(result, yd, expected);
      }
    }
  }
}

TEST(DnnSoftmax, AnyAxis) {
  const Tensor x = random_tensor({3, 5, 70}, 1);
  for (std::int64_t axis = -1; axis < 3; ++axis) {
    Graph g;
    g.add_output(g.add_op("Softmax", {g.add_input("x", Type::tensor(DType::kFloat32, x.dims()))},
                          {{"axis", axis}}));
    const Tensor y = evaluate(g, {x});
    const std::size_t a = axis < 0 ? 2 : static_cast<std::size_t>(axis);
    std::int64_t inner = 1;
    for (std::size_t d = a + 1; d < 3; ++d) inner *= x.dims()[d];
    std::vector<double> expected(x.count());
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const std::int64_t first = i - i / inner % x.dims()[a] * inner;
      double sum = 0;
      for (std::int64_t k = 0; k < x.dims()[a]; ++k) {
        sum += std::exp(static_cast<double>(x.data<float>()[first + k * inner]));
      }
      expected[i] = std::exp(static_cast<double>(x.data<float>()[i])) / sum;
    }
    expect_near(y, x.dims(), expected);
  }
}

TEST(DnnConcat, ShortRowsAndLong) {
  for (const std::int64_t axis : {0, 1, 2, -1}) {
    const Dims base{3, 4, 50};
    std::vector<Tensor> parts;
    Graph g;
    std::vector<ValueId> inputs;
    std::vector<Data> feeds;
    for (unsigned i = 0; i < 4; ++i) {
      Dims d = base;
      d[axis < 0 ? 2 : axis] = 1 + i * 7;
      parts.push_back(random_tensor(d, i));
      inputs.push_back(g.add_input("", Type::tensor(DType::kFloat32, d)));
      feeds.emplace_back(parts.back());
    }
    const ValueId y = g.add_op("Concat", inputs, {{"axis", axis}});
    g.add_output(y);
    const Tensor result = evaluate(g, feeds);
    const std::size_t a = axis < 0 ? 2 : static_cast<std::size_t>(axis);
    std::vector<double> expected;
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (std::size_t d = 0; d < a; ++d) outer *= base[d];
    for (std::size_t d = a + 1; d < 3; ++d) inner *= base[d];
    for (std::int64_t o = 0; o < outer; ++o) {
      for (const Tensor& p : parts) {
        const std::int64_t width = p.dims()[a] * inner;
        for (std::int64_t i = 0; i < width; ++i) {
          expected.push_back(p.data<float>()[o * width + i]);
        }
      }
    }
    expect_near(result, *g.type(y).static_dims(), expected, 0);
  }
}

}  // namespace
}  // namespace xrt
