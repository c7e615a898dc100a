// SPDX-License-Identifier: Apache-2.0
// The XLA engine through the engine interface: graphs built by hand, results worked out by hand.
#include "xrt/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ops/canonical.h"
#include "tests/support/engine_calls.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {
namespace {

Tensor floats(Dims dims, const std::vector<float>& values) {
  return Tensor::from<float>(DType::kFloat32, std::move(dims), values);
}

std::vector<float> values_of(const Data& data) {
  const Tensor& t = data.tensor();
  return {t.data<float>(), t.data<float>() + t.count()};
}

Type f32(Dims dims) { return Type::tensor(DType::kFloat32, dims); }

class XlaEngineTest : public testing::Test {
 protected:
  void SetUp() override { engine_ = get_engine("xla"); }

  // An op's output whose type the test states.
  static ValueId op(Graph& g, const char* name, std::vector<ValueId> inputs, Type type,
                    Attributes attributes = {}) {
    const ValueId out = g.add_op(name, std::move(inputs), std::move(attributes));
    g.set_type(out, std::move(type));
    return out;
  }

  std::vector<Data> run(Graph g, const std::vector<Data>& inputs,
                        std::vector<InputOutputAlias> aliases = {}) {
    canonicalize(g);
    const Function function = function_of("f", g, std::move(aliases));
    CompileOptions options;
    options.num_threads = 2;
    executable_ = engine_->compile(function, options);
    std::vector<Data> outputs(g.outputs().size());
    run_once(*executable_, nullptr, inputs, outputs);
    return outputs;
  }

  std::shared_ptr<const Engine> engine_;
  std::shared_ptr<const Executable> executable_;
};

TEST_F(XlaEngineTest, AddsWithBroadcastIntoCallersMemory) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 3}));
  const ValueId y = g.add_constant("y", floats({3}, {10, 20, 30}));
  g.add_output(op(g, "Add", {x, y}, f32({2, 3})));
  const Function function = function_of("f", g);
  const auto executable = engine_->compile(function, {});
  const Tensor in = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor out = Tensor::allocate(DType::kFloat32, {2, 3});
  std::vector<Data> outputs{out};
  run_once(*executable, nullptr, std::vector<Data>{in}, outputs);
  EXPECT_EQ(outputs[0].tensor().raw(), out.raw());
  EXPECT_EQ(values_of(outputs[0]), (std::vector<float>{11, 22, 33, 14, 25, 36}));
}

TEST_F(XlaEngineTest, ReadsUnalignedInputs) {
  Graph g;
  const ValueId x = g.add_input("x", f32({5}));
  g.add_output(op(g, "Neg", {x}, f32({5})));
  std::vector<float> memory{0, 1, 2, 3, 4, 5};
  const Tensor in = Tensor::wrap(DType::kFloat32, {5}, memory.data() + 1, nullptr);
  EXPECT_EQ(values_of(run(g, {in})[0]), (std::vector<float>{-1, -2, -3, -4, -5}));
}

TEST_F(XlaEngineTest, ResultOutlivesExecutable) {
  Graph g;
  const ValueId x = g.add_input("x", f32({1024}));
  g.add_output(op(g, "Exp", {x}, f32({1024})));
  std::vector<float> zeros(1024, 0.0F);
  const std::vector<Data> out = run(g, {floats({1024}, zeros)});
  executable_.reset();
  EXPECT_EQ(values_of(out[0]), std::vector<float>(1024, 1.0F));
}

TEST_F(XlaEngineTest, DonatedInputIsUpdatedInPlace) {
  Graph g;
  const ValueId weight = g.add_input("w", f32({256}));
  const ValueId gradient = g.add_input("g", f32({256}));
  g.add_output(op(g, "Sub", {weight, gradient}, f32({256})));
  const Tensor w = floats({256}, std::vector<float>(256, 3.0F));
  const Tensor d = floats({256}, std::vector<float>(256, 1.0F));
  const Function function = function_of("f", g, {{0, 0}});
  const auto executable = engine_->compile(function, {});
  std::vector<Data> outputs{w};
  for (int step = 0; step < 2; ++step) {
    run_once(*executable, nullptr, std::vector<Data>{w, d}, outputs);
  }
  EXPECT_EQ(values_of(w), std::vector<float>(256, 1.0F));
}

Tensor as_blob(std::string_view bytes) {
  Tensor blob = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())});
  std::memcpy(blob.raw(), bytes.data(), bytes.size());
  return blob;
}

TEST_F(XlaEngineTest, SerialisedExecutableComputesTheSame) {
  Graph g;
  const ValueId x = g.add_input("x", f32({2, 512}));
  std::vector<float> big(512);
  std::iota(big.begin(), big.end(), 0.0F);
  const ValueId y = g.add_constant("y", floats({512}, big));
  g.add_output(op(g, "Mul", {x, y}, f32({2, 512})));
  const Function function = function_of("f", g);
  const auto first = engine_->compile(function, {});
  const std::optional<std::string> bytes = first->serialize();
  ASSERT_TRUE(bytes);
  const auto second = engine_->load(view_of(as_blob(*bytes)), function, {});
  std::vector<Data> outputs(1);
  run_once(*second, nullptr, std::vector<Data>{floats({2, 512}, std::vector<float>(1024, 2.0F))},
           outputs);
  EXPECT_EQ(values_of(outputs[0])[511], 1022.0F);

  Graph other;
  other.add_output(op(other, "Neg", {other.add_input("x", f32({2}))}, f32({2})));
  const Function wrong = function_of("f", other);
  EXPECT_THROW(engine_->load(view_of(as_blob(*bytes)), wrong, {}), Error);
  EXPECT_THROW(engine_->load(view_of(as_blob("garbage")), function, {}), Error);
}

TEST_F(XlaEngineTest, RefusesWithReasons) {
  Graph g;
  const ValueId dynamic = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N"), 3}));
  op(g, "Relu", {dynamic}, Type::tensor(DType::kFloat32, Shape{Dim("N"), 3}));
  const ValueId fixed = g.add_input("y", f32({2, 3}));
  const ValueId shape = g.add_input("s", Type::tensor(DType::kInt64, Dims{1}));
  op(g, "Reshape", {fixed, shape}, f32({6}));
  op(g, "Identity", {g.add_input("t", Type::tensor(DType::kString, Dims{1}))},
     Type::tensor(DType::kString, Dims{1}));
  const std::vector<NodeId> nodes = g.nodes();
  const auto reason = [&](std::size_t i) {
    const Support answer = engine_->supports({view_of(g), nodes[i]});
    EXPECT_FALSE(answer);
    return answer.reason();
  };
  EXPECT_NE(reason(0).find("no static shape: float32[N,3]"), std::string::npos);
  EXPECT_NE(reason(1).find("the shape is not a constant"), std::string::npos);
  EXPECT_NE(reason(2).find("string"), std::string::npos);
}

TEST_F(XlaEngineTest, WrongOptionAndWrongInputAreErrors) {
  Graph g;
  g.add_output(op(g, "Neg", {g.add_input("x", f32({2}))}, f32({2})));
  const Function function = function_of("f", g);
  CompileOptions options;
  options.engine_options = {{"speed", "11"}};
  EXPECT_THROW(engine_->compile(function, options), Error);
  options.engine_options = {{"xla_no_such_flag", "1"}};
  EXPECT_THROW(engine_->compile(function, options), Error);
  const auto executable = engine_->compile(function, {});
  std::vector<Data> outputs(1);
  EXPECT_THROW(run_once(*executable, nullptr, std::vector<Data>{floats({3}, {1, 2, 3})}, outputs),
               Error);
}

TEST_F(XlaEngineTest, IntegerDivisionByZeroDoesNotStopTheProcess) {
  Graph g;
  const Type type = Type::tensor(DType::kInt32, Dims{3});
  const ValueId x = g.add_input("x", type);
  const ValueId y = g.add_input("y", type);
  g.add_output(op(g, "Div", {x, y}, type));
  const std::vector<std::int32_t> a{7, -7, 5};
  const std::vector<std::int32_t> b{2, 2, 0};
  const std::vector<Data> out = run(g, {Tensor::from<std::int32_t>(DType::kInt32, {3}, a),
                                        Tensor::from<std::int32_t>(DType::kInt32, {3}, b)});
  EXPECT_EQ(out[0].tensor().data<std::int32_t>()[0], 3);
  EXPECT_EQ(out[0].tensor().data<std::int32_t>()[1], -3);
}

}  // namespace
}  // namespace xrt
