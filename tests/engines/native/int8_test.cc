// SPDX-License-Identifier: Apache-2.0
// Quantised networks, compiled in several ways, against the same nodes run one at a time. What one
// node computes on bytes is tested against whole numbers in test_int8.py and test_int8_bytes.py.
#include <random>

#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kChannels = 16;

template <typename T>
Tensor random_tensor(DType dtype, Dims dims, unsigned seed, double low, double high) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> value(low, high);
  Tensor t = Tensor::allocate(dtype, std::move(dims));
  for (std::int64_t i = 0; i < t.count(); ++i) t.data<T>()[i] = static_cast<T>(value(generator));
  return t;
}

Tensor picture(std::int64_t batch) {
  return random_tensor<float>(DType::kFloat32, {batch, kChannels, 14, 11}, 7, -3, 3);
}

// Two residual blocks, pools, an activation that is added, a mean and a product. Every value
// between has a scale.
class Network {
 public:
  explicit Network(Dim batch) {
    ValueId x = graph.add_input(
        "x", Type::tensor(DType::kFloat32, Shape{batch, Dim(kChannels), Dim(14), Dim(11)}));
    x = on_bytes(x, 0.03F, 128);
    for (int block = 0; block < 2; ++block) {
      ValueId y = on_bytes(graph.add_op("Relu", {conv(x, 3)}), 0.04F, 0);
      y = graph.add_op("Add", {conv(y, 1), x});
      x = on_bytes(graph.add_op("Relu", {y}), 0.05F, 3);
    }
    x = graph.add_op("MaxPool", {x},
                     {{"kernel_shape", std::vector<std::int64_t>{2, 2}},
                      {"strides", std::vector<std::int64_t>{2, 2}}});
    x = on_bytes(x, 0.05F, 3);
    x = on_bytes(graph.add_op("AveragePool", {x},
                              {{"kernel_shape", std::vector<std::int64_t>{3, 3}},
                               {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}),
                 0.04F, 2);
    const ValueId gate = on_bytes(graph.add_op("Sigmoid", {x}), 0.004F, 0);
    x = on_bytes(graph.add_op("Add", {x, gate}), 0.05F, 4);
    x = on_bytes(graph.add_op("GlobalAveragePool", {x}), 0.02F, 5);
    x = on_bytes(graph.add_op("Flatten", {x}), 0.02F, 5);
    x = graph.add_op("MatMul", {x, weights({kChannels, 24}, 1)});
    graph.add_output(on_bytes(x, 0.01F, 100));
  }

  Graph graph;

 private:
  ValueId on_bytes(ValueId x, float scale, std::uint8_t zero) {
    const ValueId s = graph.add_constant("", Tensor::scalar(scale));
    const ValueId z =
        graph.add_constant("", Tensor::from<std::uint8_t>(DType::kUInt8, {}, std::span(&zero, 1)));
    return graph.add_op("DequantizeLinear", {graph.add_op("QuantizeLinear", {x, s, z}), s, z});
  }

  ValueId weights(Dims dims, std::int64_t axis) {
    const std::int64_t channels = dims.at(static_cast<std::size_t>(axis));
    ++seed_;
    const ValueId w = graph.add_constant(
        "", random_tensor<std::int8_t>(DType::kInt8, std::move(dims), seed_, -127, 127));
    const ValueId s = graph.add_constant(
        "", random_tensor<float>(DType::kFloat32, {channels}, seed_, 0.0005, 0.002));
    return graph.add_op("DequantizeLinear", {w, s}, {{"axis", axis}});
  }

  ValueId conv(ValueId x, std::int64_t kernel) {
    const ValueId bias =
        graph.add_constant("", random_tensor<float>(DType::kFloat32, {kChannels}, ++seed_, -1, 1));
    return graph.add_op("Conv", {x, weights({kChannels, kChannels, kernel, kernel}, 0), bias},
                        {{"pads", std::vector<std::int64_t>(4, kernel / 2)}});
  }

  unsigned seed_ = 0;
};

// Each node in a graph of its own: QuantizeLinear and DequantizeLinear as they are written.
Tensor one_at_a_time(const Graph& graph, const Tensor& x) {
  std::vector<Data> values(graph.value_capacity());
  values[graph.inputs()[0].index] = x;
  for (const ValueId c : graph.constants()) values[c.index] = *graph.constant(c);
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    Graph g;
    std::vector<ValueId> inputs;
    std::vector<Data> feeds;
    for (const ValueId v : node.inputs) {
      const Tensor& t = values[v.index].tensor();
      inputs.push_back(g.add_input("", Type::tensor(t.dtype(), t.dims())));
      feeds.emplace_back(t);
    }
    g.add_output(g.add_op(node.op, inputs, node.attributes));
    values[node.outputs[0].index] = evaluate(g, feeds);
  }
  return values[graph.outputs()[0].index].tensor();
}

// A step of an early value may be seen through all that follows.
void expect_close(const Tensor& found, const Tensor& wanted) {
  ASSERT_EQ(found.dims(), wanted.dims());
  int off = 0;
  for (std::int64_t i = 0; i < found.count(); ++i) {
    const float difference = std::fabs(found.data<float>()[i] - wanted.data<float>()[i]);
    EXPECT_LE(difference, 0.021F) << "element " << i;
    off += difference > 0.005F ? 1 : 0;
  }
  EXPECT_LE(off, found.count() / 3);
}

TEST(NativeInt8, ComputesWhatTheNodesSay) {
  for (const std::int64_t batch : {1, 3}) {
    Network network{Dim(batch)};
    const Tensor x = picture(batch);
    const auto executable = compile(network.graph);
    const auto context = executable->create_context();
    const Tensor wanted = one_at_a_time(network.graph, x);
    for (int round = 0; round < 2; ++round) {
      expect_close(run(*executable, {x}, 1, context.get())[0].tensor(), wanted);
    }
  }
}

// The other tests would pass in float32 as well.
TEST(NativeInt8, WeightsStayBytes) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx512 = __builtin_cpu_supports("avx512f");
  if (has_avx512 ? !__builtin_cpu_supports("avx512vnni") : !__builtin_cpu_supports("avx2")) {
    GTEST_SKIP() << "this CPU computes floats instead";
  }
#else
  GTEST_SKIP() << "for x86";
#endif
  Network network{Dim(1)};
  std::size_t bytes = 0;
  for (const ValueId c : network.graph.constants()) {
    const Tensor& t = *network.graph.constant(c);
    if (t.dtype() == DType::kInt8) bytes += t.bytes();
  }
  ASSERT_GT(bytes, 5000U);
  EXPECT_LT(compile(network.graph)->info().weight_bytes, 2 * bytes);
}

TEST(NativeInt8, OneExecutableForAnyBatch) {
  Network any{Dim("n")};
  const auto executable = compile(any.graph);
  const auto context = executable->create_context();
  for (const std::int64_t batch : {1, 4, 2, 4}) {
    Network fixed{Dim(batch)};
    const Tensor x = picture(batch);
    const Tensor wanted = evaluate(fixed.graph, {x});
    EXPECT_TRUE(run(*executable, {x}, 1, context.get())[0].tensor().identical(wanted))
        << "batch " << batch;
  }
}

TEST(NativeInt8, BlobsGiveTheSameResults) {
  for (const Dim& batch : {Dim(2), Dim("n")}) {
    Network network{batch};
    const auto compiled = compile(network.graph);
    const auto bytes = compiled->serialize();
    ASSERT_TRUE(bytes.has_value());
    Tensor blob = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes->size())});
    std::copy(bytes->begin(), bytes->end(), blob.data<char>());
    CompileOptions options;
    options.num_threads = 2;
    const auto loaded = engine().load(view_of(blob), function_of("f", network.graph), options);
    const Tensor x = picture(2);
    const Tensor wanted = run(*compiled, {x}, 1)[0].tensor();
    EXPECT_TRUE(run(*loaded, {x}, 1)[0].tensor().identical(wanted));
    EXPECT_EQ(loaded->info().weight_bytes, compiled->info().weight_bytes);
  }
}

}  // namespace
}  // namespace xrt
