// SPDX-License-Identifier: Apache-2.0
// The executable: memory plan, outputs, views, errors, threads.
#include <atomic>
#include <thread>

#include "native_fixture.h"
#include "tests/support/engine_calls.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

Type float_type(Dims dims) { return Type::tensor(DType::kFloat32, dims); }

TEST(NativeExecutable, ChainReusesMemory) {
  Graph g;
  ValueId v = g.add_input("x", float_type({1024}));
  for (int i = 0; i < 10; ++i) v = g.add_op("Neg", {v});
  for (int i = 0; i < 3; ++i) v = g.add_op("CumSum", {v, g.add_constant("", int64s({}, {0}))});
  g.add_output(v);
  const auto executable = compile(g);
  // Ten elementwise ops work in one buffer, the sums need a second one; the last writes the output.
  EXPECT_LE(executable->info().workspace_bytes, 2U * 4096);
  std::vector<float> ones(1024, 1.0F);
  const Tensor y = run(*executable, {floats({1024}, ones)}, 1)[0].tensor();
  EXPECT_EQ(y.data<float>()[0], 1.0F);
  EXPECT_EQ(y.data<float>()[2], 10.0F);  // cumulated: 1 2 3, 1 3 6, 1 4 10
}

TEST(NativeExecutable, ValuesThatLiveTogetherDoNotOverlap) {
  // A value is used again after others were made: nothing may be written over it.
  Graph g;
  const ValueId x = g.add_input("x", float_type({2}));
  const ValueId a = g.add_op("Exp", {x});
  const ValueId b = g.add_op("Neg", {a});
  const ValueId c = g.add_op("Abs", {b});
  const ValueId d = g.add_op("Add", {b, c});
  g.add_output(g.add_op("Sub", {d, a}));
  const Tensor y = evaluate(g, {floats({2}, {0.0F, 0.0F})});
  EXPECT_EQ(elements(y), (std::vector<float>{-1.0F, -1.0F}));  // (-1 + 1) - 1
}

TEST(NativeExecutable, ViewsShareAndStillKeepTheirSourceAlive) {
  Graph g;
  const ValueId x = g.add_input("x", float_type({2, 3}));
  const ValueId a = g.add_op("Neg", {x});
  const ValueId flat = g.add_op("Reshape", {a, g.add_constant("s", int64s({1}, {-1}))});
  const ValueId other = g.add_op("Exp", {g.add_op("Abs", {x})});
  const ValueId sum = g.add_op("ReduceSum", {other}, {{"keepdims", std::int64_t{0}}});
  g.add_output(
      g.add_op("Add", {flat, g.add_op("Mul", {sum, g.add_constant("z", floats({}, {0}))})}));
  const Tensor y = evaluate(g, {floats({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(y.dims(), (Dims{6}));
  EXPECT_EQ(elements(y), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
}

TEST(NativeExecutable, WritesTheCallersOutput) {
  Graph g;
  const ValueId x = g.add_input("x", float_type({3}));
  g.add_output(g.add_op("Neg", {x}));
  const auto executable = compile(g);
  Tensor mine = Tensor::allocate(DType::kFloat32, {3});
  std::vector<Data> outputs{mine};
  const std::vector<Data> inputs{floats({3}, {1, 2, 3})};
  run_once(*executable, nullptr, inputs, outputs);
  EXPECT_EQ(outputs[0].tensor().raw(), mine.raw());
  EXPECT_EQ(elements(mine), (std::vector<float>{-1, -2, -3}));
}

TEST(NativeExecutable, RefusesAnOutputOfAnotherShape) {
  Graph g;
  const ValueId x = g.add_input("x", float_type({3}));
  g.add_output(g.add_op("Neg", {x}));
  const auto executable = compile(g);
  std::vector<Data> outputs{Tensor::allocate(DType::kFloat32, {4})};
  const std::vector<Data> inputs{floats({3}, {1, 2, 3})};
  EXPECT_THROW(run_once(*executable, nullptr, inputs, outputs), Error);
}

TEST(NativeExecutable, GivesAwayWhatItReturns) {
  // The outputs of one run stay as they are while the next one runs in the same context.
  Graph g;
  const ValueId x = g.add_input("x", float_type({2}));
  const ValueId y = g.add_op("Exp", {x});
  g.add_output(g.add_op("Reshape", {y, g.add_constant("s", int64s({2}, {1, 2}))}));
  g.add_output(x);
  g.add_output(y);
  g.add_output(y);
  const auto executable = compile(g);
  const auto context = executable->create_context();
  Tensor in = floats({2}, {0, 0});
  const std::vector<Data> first = run(*executable, {in}, 4, context.get());
  in.data<float>()[0] = 1;
  const std::vector<Data> second = run(*executable, {in}, 4, context.get());
  for (std::size_t i : {0U, 2U, 3U}) {
    EXPECT_EQ(elements(first[i].tensor()), (std::vector<float>{1, 1})) << i;
    EXPECT_NEAR(second[i].tensor().data<float>()[0], 2.7182817F, 1e-6F) << i;
  }
  EXPECT_EQ(elements(first[1].tensor()), (std::vector<float>{0, 0}));
  EXPECT_NE(first[2].tensor().raw(), first[3].tensor().raw());
}

TEST(NativeExecutable, UpdatesAnAliasedInputOnlyAfterItsLastUse) {
  // w' = w - g is written into w, which the second output reads too.
  Graph g;
  const ValueId w = g.add_input("w", float_type({2}));
  const ValueId d = g.add_input("d", float_type({2}));
  g.add_output(g.add_op("Sub", {w, d}));
  g.add_output(g.add_op("Mul", {w, w}));
  const auto executable = compile(g, {{0, 0}});
  const Tensor weights = floats({2}, {3, 4});
  std::vector<Data> outputs{weights, Data()};
  const std::vector<Data> inputs{weights, floats({2}, {1, 1})};
  run_once(*executable, nullptr, inputs, outputs);
  EXPECT_EQ(elements(weights), (std::vector<float>{2, 3}));
  EXPECT_EQ(elements(outputs[1].tensor()), (std::vector<float>{9, 16}));
}

TEST(NativeExecutable, TakesAnyShapeWhereDimensionsAreSymbols) {
  Graph g;
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N"), 2}));
  g.add_output(g.add_op("Relu", {g.add_op("Transpose", {x})}));
  const auto executable = compile(g);
  const auto context = executable->create_context();
  for (std::int64_t n : {3, 0, 1, 5}) {
    Tensor in = Tensor::allocate(DType::kFloat32, {n, 2});
    for (std::int64_t i = 0; i < in.count(); ++i) in.data<float>()[i] = static_cast<float>(i - 1);
    const Tensor y = run(*executable, {in}, 1, context.get())[0].tensor();
    ASSERT_EQ(y.dims(), (Dims{2, n}));
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(y.data<float>()[n + i], std::max(0.0F, static_cast<float>(2 * i)));
    }
  }
}

TEST(NativeExecutable, RunsInManyThreadsAtOnce) {
  Graph g;
  const ValueId x = g.add_input("x", float_type({200, 300}));
  ValueId v = g.add_op("Transpose", {x});
  v = g.add_op("Add", {v, g.add_op("ReduceMax", {v})});
  g.add_output(g.add_op("Softmax", {v}));
  const auto executable = compile(g);
  Tensor in = Tensor::allocate(DType::kFloat32, {200, 300});
  for (std::int64_t i = 0; i < in.count(); ++i) in.data<float>()[i] = static_cast<float>(i % 17);
  const std::vector<Data> inputs{in};
  const std::vector<float> expected = elements(run(*executable, inputs, 1)[0].tensor());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto context = executable->create_context();
      for (int i = 0; i < 5; ++i) {
        if (elements(run(*executable, inputs, 1, context.get())[0].tensor()) != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(NativeExecutable, NamesTheNodeThatFailed) {
  Graph g;
  const ValueId x = g.add_input("x", float_type({3}));
  const ValueId i = g.add_input("i", Type::tensor(DType::kInt64, Dims{1}));
  g.add_node("", "Gather", {x, i}, {"y"}, {}, "pick");
  g.add_output(*g.find_value("y"));
  const auto executable = compile(g);
  const auto context = executable->create_context();
  std::vector<Data> outputs(1);
  const std::vector<Data> bad{floats({3}, {1, 2, 3}), int64s({1}, {3})};
  try {
    run_once(*executable, context.get(), bad, outputs);
    FAIL() << "an index beyond the end was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("'pick' (Gather)"), std::string::npos) << error.what();
  }
  // The context is as good as new.
  const Tensor y =
      run(*executable, {floats({3}, {1, 2, 3}), int64s({1}, {-1})}, 1, context.get())[0].tensor();
  EXPECT_EQ(elements(y), (std::vector<float>{3}));
}

// Shapes that only the run knows: none may crash or take the machine's memory.
struct Hostile {
  const char* op;
  std::vector<std::int64_t> values;
};

class HostileSizes : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileSizes, AreErrors) {
  const Hostile& hostile = GetParam();
  const bool from_shape = std::string(hostile.op) == "ConstantOfShape";
  Graph g;
  const ValueId x = g.add_input("x", float_type({1, 1}));
  const ValueId s = g.add_input(
      "s", Type::tensor(DType::kInt64, Dims{static_cast<std::int64_t>(hostile.values.size())}));
  g.add_output(from_shape ? g.add_op(hostile.op, {s}) : g.add_op(hostile.op, {x, s}));
  const auto executable = compile(g);
  std::vector<Data> outputs(1);
  const std::vector<Data> inputs{
      floats({1, 1}, {1}),
      int64s({static_cast<std::int64_t>(hostile.values.size())}, hostile.values)};
  EXPECT_THROW(run_once(*executable, nullptr, inputs, outputs), Error);
}

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

INSTANTIATE_TEST_SUITE_P(
    Native, HostileSizes,
    ::testing::Values(Hostile{"Expand", {kHuge, kHuge}}, Hostile{"Expand", {kHuge, 1}},
                      Hostile{"Expand", {-1, 1}}, Hostile{"Tile", {kHuge, kHuge}},
                      Hostile{"Tile", {INT64_MAX, 2}}, Hostile{"Tile", {-1, 1}},
                      Hostile{"Pad", {kHuge, 0, kHuge, 0}},
                      Hostile{"Pad", {INT64_MAX, 0, INT64_MAX, 0}}, Hostile{"Pad", {-2, 0, 0, 0}},
                      Hostile{"Reshape", {0, -1, -1}}, Hostile{"Reshape", {INT64_MAX, INT64_MAX}},
                      Hostile{"ConstantOfShape", {kHuge, kHuge}},
                      Hostile{"ConstantOfShape", {kHuge}}, Hostile{"ConstantOfShape", {-1}}));

}  // namespace
}  // namespace xrt
