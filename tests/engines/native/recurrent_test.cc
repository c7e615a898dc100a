// SPDX-License-Identifier: Apache-2.0
// Threads that work on one recurrent node together: results do not depend on their number, nor on
// which of them comes in time.
#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kSteps = 40, kBatch = 1, kColumns = 48, kHidden = 270;

std::vector<float> numbers(std::int64_t count, float scale) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * (static_cast<float>(i * 7919 % 1009) / 504.0F - 1.0F);
  }
  return values;
}

// All outputs behind one another.
std::vector<float> outputs(const char* op, std::int64_t gates, int num_threads, int runs) {
  Graph g;
  const Dims x_dims{kSteps, kBatch, kColumns};
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, x_dims));
  const auto weight = [&](const char* name, std::int64_t depth) {
    const Dims dims{2, gates * kHidden, depth};
    return g.add_constant(name, floats(dims, numbers(2 * gates * kHidden * depth, 0.02F)));
  };
  const ValueId w = weight("w", kColumns);
  const ValueId r = weight("r", kHidden);
  const NodeId node =
      g.add_node("", op, {x, w, r}, {"y", "y_h"},
                 {{"hidden_size", kHidden}, {"direction", std::string("bidirectional")}});
  for (const ValueId value : g.node(node).outputs) g.add_output(value);
  const auto executable = compile(g, {}, num_threads);
  const std::vector<Data> inputs{floats(x_dims, numbers(kSteps * kBatch * kColumns, 1.0F))};
  std::vector<float> all;
  for (int i = 0; i < runs; ++i) {
    std::vector<float> now;
    for (const Data& data : run(*executable, inputs, 2)) {
      const std::vector<float> values = elements(data.tensor());
      now.insert(now.end(), values.begin(), values.end());
    }
    if (i > 0) {
      EXPECT_EQ(now, all) << op << ", " << num_threads << " threads, run " << i;
    }
    all = std::move(now);
  }
  return all;
}

TEST(Recurrent, ResultsAreTheSameForAnyNumberOfThreads) {
  for (const auto& [op, gates] : {std::pair{"RNN", 1}, std::pair{"GRU", 3}, std::pair{"LSTM", 4}}) {
    const std::vector<float> wanted = outputs(op, gates, 1, 1);
    for (const int threads : {2, 3, 5}) {
      EXPECT_EQ(outputs(op, gates, threads, 10), wanted) << op << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace xrt
