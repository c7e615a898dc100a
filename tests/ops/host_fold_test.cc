// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic on the host; expected values are worked out by hand from the standard.
#include "ops/host_fold.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace xrt {
namespace {

Tensor ints(Dims dims, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(DType::kInt64, std::move(dims), values);
}

std::optional<Tensor> fold(const char* op, const std::vector<Tensor>& inputs,
                           Attributes attributes = {}) {
  Graph g;
  std::vector<ValueId> ids;
  std::vector<const Tensor*> known;
  std::vector<std::optional<Dims>> dims;
  for (const Tensor& tensor : inputs) {
    ids.push_back(g.add_constant("c" + std::to_string(ids.size()), tensor));
    known.push_back(&tensor);
    dims.emplace_back(tensor.dims());
  }
  const ValueId out = g.add_op(op, ids, std::move(attributes), "y");
  return fold_on_host(g.node(g.value(out).producer), known, dims);
}

TEST(HostFold, ComputesShapes) {
  const auto shape =
      fold("Shape", {Tensor::allocate(DType::kFloat32, {2, 3, 4})}, {{"start", std::int64_t{-2}}});
  EXPECT_EQ(shape->to_int64(), (Dims{3, 4}));
  EXPECT_EQ(fold("Mul", {ints({2}, {3, 4}), ints({}, {-2})})->to_int64(), (Dims{-6, -8}));
  EXPECT_EQ(fold("Gather", {ints({3}, {5, 6, 7}), ints({2}, {-1, 0})})->to_int64(), (Dims{7, 5}));
  EXPECT_EQ(fold("Concat", {ints({1}, {5}), ints({2}, {6, 7})})->to_int64(), (Dims{5, 6, 7}));
  EXPECT_EQ(fold("Range", {ints({}, {1}), ints({}, {8}), ints({}, {3})})->to_int64(),
            (Dims{1, 4, 7}));
  EXPECT_EQ(fold("ReduceProd", {ints({3}, {2, 3, 4})})->to_int64(), (Dims{24}));
}

TEST(HostFold, SpreadsConstants) {
  const auto filled = fold("ConstantOfShape", {ints({2}, {2, 1})}, {{"value", ints({1}, {9})}});
  EXPECT_EQ(filled->dims(), (Dims{2, 1}));
  EXPECT_EQ(filled->to_int64(), (Dims{9, 9}));
  const auto spread = fold("Expand", {ints({2, 1}, {1, 2}), ints({2}, {1, 3})});
  EXPECT_EQ(spread->dims(), (Dims{2, 3}));
  EXPECT_EQ(spread->to_int64(), (Dims{1, 1, 1, 2, 2, 2}));
  // Too large to be worth it, or no shape at all.
  const std::int64_t large = std::int64_t{1} << 40U;
  EXPECT_FALSE(fold("ConstantOfShape", {ints({2}, {large, large})}, {{"value", ints({1}, {9})}}));
  EXPECT_FALSE(fold("ConstantOfShape", {ints({1}, {-1})}, {{"value", ints({1}, {9})}}));
  EXPECT_FALSE(fold("Expand", {ints({1}, {1}), ints({2}, {4096, 4096})}));
  EXPECT_FALSE(fold("Reshape", {ints({1}, {1}), ints({1}, {-7})}));
}

TEST(HostFold, DividesAsTheStandardSays) {
  EXPECT_EQ(fold("Div", {ints({2}, {7, -7}), ints({}, {2})})->to_int64(), (Dims{3, -3}));
  EXPECT_EQ(fold("Mod", {ints({2}, {7, -7}), ints({}, {3})})->to_int64(), (Dims{1, 2}));
  EXPECT_FALSE(fold("Div", {ints({1}, {7}), ints({1}, {0})}));
  // What stops a processor: the result wraps around.
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(fold("Div", {ints({1}, {least}), ints({1}, {-1})})->to_int64(), (Dims{least}));
  EXPECT_EQ(fold("Mod", {ints({1}, {least}), ints({1}, {-1})})->to_int64(), (Dims{0}));
  EXPECT_EQ(fold("Abs", {ints({1}, {least})})->to_int64(), (Dims{least}));
}

TEST(HostFold, LeavesOtherNodesAlone) {
  EXPECT_FALSE(fold("Relu", {ints({1}, {1})}));
  EXPECT_FALSE(fold("Add", {Tensor::scalar(1.0F), Tensor::scalar(2.0F)}));
  EXPECT_FALSE(fold("Add", {ints({5000}, std::vector<std::int64_t>(5000)), ints({}, {1})}));
}

}  // namespace
}  // namespace xrt
