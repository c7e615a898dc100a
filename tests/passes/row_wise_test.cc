// SPDX-License-Identifier: Apache-2.0
#include "passes/row_wise.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/shape_inference.h"
#include "xrt/graph.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;

Type rows(Shape rest) {
  rest.insert(rest.begin(), Dim("n"));
  return Type::tensor(DType::kFloat32, std::move(rest));
}
Type f32(const Dims& dims) { return Type::tensor(DType::kFloat32, dims); }
ValueId ints(Graph& g, const Ints& values) {
  return g.add_constant("c", Tensor::from_int64(values));
}

// What row_wise() says of a graph with one output.
RowWise judge(const std::function<ValueId(Graph&)>& build) {
  Graph g;
  g.add_output(build(g));
  infer_shapes(g);
  return row_wise(g, "n");
}

int axis(const std::function<ValueId(Graph&)>& build) {
  const RowWise found = judge(build);
  EXPECT_TRUE(found) << found.why_not;
  return found ? found.output_axes.at(0) : -9;
}

TEST(RowWise, AClassifier) {
  EXPECT_EQ(axis([](Graph& g) {
              const ValueId x = g.add_input("x", rows({Dim(3), Dim(8), Dim(8)}));
              const ValueId w = g.add_input("w", f32({4, 3, 3, 3}));
              const ValueId pooled = g.add_op(
                  "GlobalAveragePool",
                  {g.add_op("Relu", {g.add_op("Conv", {x, w}, {{"pads", Ints{1, 1, 1, 1}}})})});
              const ValueId flat = g.add_op("Flatten", {pooled}, {{"axis", std::int64_t{1}}});
              const ValueId product = g.add_op(
                  "Gemm", {flat, g.add_input("f", f32({4, 5})), g.add_input("b", f32({5}))});
              return g.add_op("Softmax", {product}, {{"axis", std::int64_t{-1}}});
            }),
            0);
}

TEST(RowWise, RowsMayMoveToAnotherAxis) {
  EXPECT_EQ(axis([](Graph& g) {
              const ValueId x = g.add_input("x", rows({Dim(3), Dim(5)}));
              return g.add_op("Transpose", {x}, {{"perm", Ints{2, 0, 1}}});
            }),
            1);
  EXPECT_EQ(axis([](Graph& g) {
              const ValueId x = g.add_input("x", rows({Dim(3)}));
              return g.add_op("Unsqueeze", {x, ints(g, {0, 2})});
            }),
            1);
}

TEST(RowWise, AReshapeByTheNumberOfRows) {
  const auto reshaped = [](std::int64_t split) {
    return [split](Graph& g) {
      const ValueId x = g.add_input("x", rows({Dim(6), Dim(4)}));
      const ValueId count =
          g.add_op("Gather", {g.add_op("Shape", {x}), ints(g, {0})}, {{"axis", std::int64_t{0}}});
      const ValueId shape =
          g.add_op("Concat", {count, ints(g, {split, 24 / split})}, {{"axis", std::int64_t{0}}});
      return g.add_op("Reshape", {x, shape});
    };
  };
  EXPECT_EQ(axis(reshaped(8)), 0);
  EXPECT_EQ(axis(reshaped(24)), 0);
  // [n, 6, 4] read as [4, n, 6]: a row gets elements of others.
  const RowWise turned = judge([](Graph& g) {
    const ValueId x = g.add_input("x", rows({Dim(6), Dim(4)}));
    const ValueId count =
        g.add_op("Gather", {g.add_op("Shape", {x}), ints(g, {0})}, {{"axis", std::int64_t{0}}});
    const ValueId shape =
        g.add_op("Concat", {ints(g, {4}), count, ints(g, {6})}, {{"axis", std::int64_t{0}}});
    return g.add_op("Reshape", {x, shape});
  });
  EXPECT_FALSE(turned);
}

TEST(RowWise, WhatReadsSeveralRowsIsNot) {
  const auto refuses = [](const std::function<ValueId(Graph&)>& build) {
    const RowWise found = judge(build);
    EXPECT_FALSE(found);
    EXPECT_FALSE(found.why_not.empty());
  };
  const auto on_x = [](const std::function<ValueId(Graph&, ValueId)>& op) {
    return [op](Graph& g) { return op(g, g.add_input("x", rows({Dim(4)}))); };
  };
  refuses(on_x([](Graph& g, ValueId x) {
    return g.add_op("Softmax", {x}, {{"axis", std::int64_t{0}}});
  }));
  refuses(on_x([](Graph& g, ValueId x) {
    return g.add_op("Sub", {x, g.add_op("ReduceMean", {x, ints(g, {0})})});
  }));
  refuses(on_x([](Graph& g, ValueId x) { return g.add_op("ReduceSum", {x}); }));
  refuses(on_x([](Graph& g, ValueId x) {
    return g.add_op("MatMul", {g.add_op("Transpose", {x}, {{"perm", Ints{1, 0}}}), x});
  }));
  refuses(on_x([](Graph& g, ValueId x) {  // rows against rows of another place
    return g.add_op("Add", {g.add_op("Unsqueeze", {x, ints(g, {0})}),
                            g.add_op("Unsqueeze", {x, ints(g, {1})})});
  }));
  refuses(on_x([](Graph& g, ValueId x) { return g.add_op("Reshape", {x, ints(g, {-1})}); }));
  refuses(on_x([](Graph& g, ValueId x) { return g.add_op("Reshape", {x, ints(g, {2, -1})}); }));
  refuses(on_x([](Graph& g, ValueId x) { return g.add_op("Shape", {x}); }));
  refuses(on_x([](Graph& g, ValueId x) {  // the number of rows gets into the numbers
    const ValueId count = g.add_op("Cast", {g.add_op("Size", {x})},
                                   {{"to", static_cast<std::int64_t>(DType::kFloat32)}});
    return g.add_op("Mul", {x, count});
  }));
  refuses(on_x([](Graph& g, ValueId x) { return g.add_op("CumSum", {x, ints(g, {0})}); }));
  refuses(on_x([](Graph& g, ValueId x) {
    return g.add_op("Slice", {x, ints(g, {0}), ints(g, {1}), ints(g, {0})});
  }));
  refuses(on_x([](Graph& g, ValueId x) {
    return g.add_op("Concat", {x, x}, {{"axis", std::int64_t{0}}});
  }));
  refuses(on_x([](Graph& g, ValueId x) {
    const NodeId id = g.add_node("", "DynamicQuantizeLinear", {x}, {"q", "scale", "zero"});
    return g.node(id).outputs[0];
  }));
  refuses(on_x([](Graph& g, ValueId x) { return g.add_op("NonZero", {x}); }));
}

TEST(RowWise, ParametersMayNotHaveAsManyRows) {
  const auto biased = [](const Dims& bias) {
    return [bias](Graph& g) {
      return g.add_op("Add", {g.add_input("x", rows({Dim(4)})), g.add_input("b", f32(bias))});
    };
  };
  EXPECT_EQ(axis(biased({4})), 0);
  EXPECT_EQ(axis(biased({1, 4})), 0);
  EXPECT_FALSE(judge(biased({7, 4})));
}

TEST(RowWise, AnInputWithTwoAxesOfTheDimensionIsNot) {
  EXPECT_FALSE(
      judge([](Graph& g) { return g.add_op("Relu", {g.add_input("x", rows({Dim("n")}))}); }));
}

TEST(RowWise, WhatDoesNotDependOnRowsIsWhole) {
  Graph g;
  const ValueId x = g.add_input("x", rows({Dim(4)}));
  const ValueId w = g.add_input("w", f32({4, 2}));
  g.add_output(g.add_op("MatMul", {x, w}));
  g.add_output(g.add_op("ReduceSum", {w}));
  infer_shapes(g);
  const RowWise found = row_wise(g, "n");
  ASSERT_TRUE(found) << found.why_not;
  EXPECT_EQ(found.output_axes, (std::vector<int>{0, -1}));
}

}  // namespace
}  // namespace xrt
