// SPDX-License-Identifier: Apache-2.0
// Blobs: an executable that was loaded computes bit for bit what the compiled one does, reads its
// weights where they lie, and refuses what is no blob of its function.
#include <numeric>

#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

Type float_type(Dims dims) { return Type::tensor(DType::kFloat32, dims); }

Tensor filled(Dims dims, float step) {
  Tensor t = Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) {
    t.data<float>()[i] = static_cast<float>(i % 17 - 8) * step;
  }
  return t;
}

// A convolution with bias and activation, and a product: both pack their weights.
Graph network() {
  Graph g("network");
  const ValueId x = g.add_input("x", float_type({1, 8, 12, 12}));
  const ValueId conv = g.add_op("Conv",
                                {x, g.add_constant("w", filled({32, 8, 3, 3}, 0.02F)),
                                 g.add_constant("b", filled({32}, 0.1F))},
                                {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  const ValueId pooled = g.add_op("GlobalAveragePool", {g.add_op("Relu", {conv})});
  const ValueId flat = g.add_op("Flatten", {pooled});
  g.add_output(g.add_op("MatMul", {flat, g.add_constant("m", filled({32, 48}, 0.03F))}));
  return g;
}

Tensor as_tensor(const std::string& bytes) {
  Tensor t = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), t.data<char>());
  return t;
}

std::shared_ptr<const Executable> load(const Graph& g, const Tensor& blob, int threads = 2) {
  CompileOptions options;
  options.num_threads = threads;
  return engine().load(view_of(blob), function_of("f", g), options);
}

TEST(NativeBlob, GivesTheSameResults) {
  Graph g = network();
  const auto compiled = compile(g);
  const auto bytes = compiled->serialize();
  ASSERT_TRUE(bytes.has_value());
  const auto loaded = load(g, as_tensor(*bytes));
  const std::vector<Data> inputs{filled({1, 8, 12, 12}, 0.05F)};
  const Tensor expected = run(*compiled, inputs, 1)[0].tensor();
  EXPECT_TRUE(run(*loaded, inputs, 1)[0].tensor().identical(expected));
  EXPECT_EQ(loaded->info().weight_bytes, compiled->info().weight_bytes);
  EXPECT_EQ(loaded->info().workspace_bytes, compiled->info().workspace_bytes);
}

TEST(NativeBlob, WeightsStayWhereTheyAre) {
  Graph g = network();
  Tensor blob = as_tensor(*compile(g)->serialize());
  const auto loaded = load(g, blob);
  const std::vector<Data> inputs{filled({1, 8, 12, 12}, 0.05F)};
  run(*loaded, inputs, 1);
  // The product's weights are the last thing in the blob: doubling them doubles what it computes.
  const float before = run(*loaded, inputs, 1)[0].tensor().data<float>()[5];
  const std::int64_t n = 32 * 48;
  auto* weights = reinterpret_cast<float*>(blob.data<char>() + blob.bytes()) - n;
  for (std::int64_t i = 0; i < n; ++i) weights[i] *= 2;
  EXPECT_NE(before, 0);
  EXPECT_EQ(run(*loaded, inputs, 1)[0].tensor().data<float>()[5], 2 * before);
}

TEST(NativeBlob, ThePlainWeightsAreNotInIt) {
  Graph g = network();
  const auto compiled = compile(g);
  EXPECT_LT(compiled->serialize()->size(), compiled->info().weight_bytes + 10'000);
}

TEST(NativeBlob, DynamicShapesKeepTheirConstants) {
  Graph g("dynamic");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), Dim(32)}));
  g.add_output(g.add_op("MatMul", {x, g.add_constant("m", filled({32, 48}, 0.03F))}));
  const auto compiled = compile(g);
  const auto loaded = load(g, as_tensor(*compiled->serialize()));
  for (const std::int64_t n : {1, 5}) {
    const std::vector<Data> inputs{filled({n, 32}, 0.05F)};
    const Tensor expected = run(*compiled, inputs, 1)[0].tensor();
    EXPECT_TRUE(run(*loaded, inputs, 1)[0].tensor().identical(expected));
  }
}

TEST(NativeBlob, BodiesAndStringsComeBack) {
  Graph g("control");
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", float_type({4}));
  const auto branch = [&](const char* op) {
    auto body = std::make_shared<Graph>(op);
    const ValueId inner = body->add_capture(x, "inner", float_type({4}));
    body->add_output(body->add_op(op, {inner}));
    return body;
  };
  const NodeId id = g.add_node("", "If", {c}, {"y"},
                               {{"then_branch", branch("Neg")}, {"else_branch", branch("Abs")}});
  g.add_output(g.node(id).outputs[0]);
  const auto loaded = load(g, as_tensor(*compile(g)->serialize()));
  const Tensor y = floats({4}, {1, -2, 3, -4});
  Tensor yes = Tensor::allocate(DType::kBool, {});
  yes.data<std::uint8_t>()[0] = 1;
  EXPECT_EQ(elements(run(*loaded, {yes, y}, 1)[0].tensor()), (std::vector<float>{-1, 2, -3, 4}));
}

TEST(NativeBlob, WhatIsNoBlobIsAnError) {
  Graph g = network();
  const std::string whole = *compile(g)->serialize();
  EXPECT_THROW(load(g, as_tensor("")), Error);
  EXPECT_THROW(load(g, as_tensor("nonsense, but longer than a length")), Error);
  for (const std::size_t left : {whole.size() - 1, whole.size() / 2, std::size_t{100}}) {
    EXPECT_THROW(load(g, as_tensor(whole.substr(0, left))), Error) << left;
  }
  for (std::size_t at = 0; at < 3000 && at < whole.size(); at += 3) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    try {
      load(g, as_tensor(bytes));  // a name or a number may be another and still fit
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace xrt
