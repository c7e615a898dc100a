// SPDX-License-Identifier: Apache-2.0
#include "ops/canonical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/attributes.h"
#include "onnx/exporter.h"
#include "ops/schema.h"
#include "ops/shape_inference.h"
#include "ops/sizes/padding.h"
#include "xrt/error.h"
#include "xrt/op.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::ElementsAre;
using testing::HasSubstr;

Type floats(Shape shape) { return Type::tensor(DType::kFloat32, std::move(shape)); }

// A graph of one node, in canonical form.
struct One {
  Graph graph;
  NodeId id;

  const Node& node() const { return graph.node(id); }
  Ints ints(const char* name) const { return node().attr_ints(name); }
};

One one(const char* op, const std::vector<Type>& inputs, Attributes attributes,
        const char* domain = "") {
  One made;
  std::vector<ValueId> values;
  for (const Type& type : inputs) values.push_back(made.graph.add_input("", type));
  made.id = made.graph.add_node(domain, op, values, {"y"}, std::move(attributes));
  made.graph.add_output(made.graph.node(made.id).outputs[0]);
  infer_shapes(made.graph);
  canonicalize(made.graph);
  const Type before = made.graph.type(made.graph.outputs()[0]);
  infer_shapes(made.graph, /*reset=*/true);
  EXPECT_EQ(to_string(made.graph.type(made.graph.outputs()[0])), to_string(before));
  EXPECT_FALSE(canonicalize(made.graph));
  return made;
}

TEST(Canonical, PaddingOfKnownSizesIsExplicit) {
  const One upper = one("Conv", {floats({1, 2, 8, 9}), floats({4, 2, 4, 3})},
                        {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 3}}});
  // 8 elements in windows of 4 by 2: 4 windows reach over 10; 9 in windows of 3 by 3 fit.
  EXPECT_THAT(upper.ints("pads"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(upper.ints("kernel_shape"), ElementsAre(4, 3));
  EXPECT_THAT(upper.ints("dilations"), ElementsAre(1, 1));
  EXPECT_EQ(need_int(upper.node(), "group"), 1);
  EXPECT_FALSE(upper.node().has("auto_pad"));
  const One lower = one("MaxPool", {floats({1, 2, 8})},
                        {{"auto_pad", std::string("SAME_LOWER")}, {"kernel_shape", Ints{4}}});
  EXPECT_THAT(lower.ints("pads"), ElementsAre(2, 1));
  const One valid = one("AveragePool", {floats({1, 2, 8})},
                        {{"auto_pad", std::string("VALID")}, {"kernel_shape", Ints{3}}});
  EXPECT_THAT(valid.ints("pads"), ElementsAre(0, 0));
  EXPECT_FALSE(valid.node().has("auto_pad"));
}

TEST(Canonical, PaddingStaysOpenOnlyWhereTheSizeDecides) {
  const Attributes same{{"auto_pad", std::string("SAME_UPPER")}, {"kernel_shape", Ints{3}}};
  const One dense = one("MaxPool", {floats({1, 2, Dim("L")})}, same);
  EXPECT_THAT(dense.ints("pads"), ElementsAre(1, 1));
  Attributes strided = same;
  strided["strides"] = Ints{2};
  One open = one("MaxPool", {floats({1, 2, Dim("L")})}, strided);
  EXPECT_EQ(need_string(open.node(), "auto_pad"), "SAME_UPPER");
  EXPECT_FALSE(open.node().has("pads"));
  open.graph.set_type(open.graph.inputs()[0], floats({1, 2, 6}));
  infer_shapes(open.graph, /*reset=*/true);
  EXPECT_TRUE(canonicalize(open.graph));
  EXPECT_THAT(open.ints("pads"), ElementsAre(0, 1));
}

TEST(Canonical, TransposedConvolutionsHaveNoOutputShape) {
  const std::vector<Type> inputs{floats({1, 2, 3}), floats({2, 4, 3})};
  const One smaller =
      one("ConvTranspose", inputs, {{"strides", Ints{2}}, {"output_shape", Ints{6}}});
  EXPECT_THAT(smaller.ints("pads"), ElementsAre(1, 0));  // 7 elements; only SAME_UPPER cuts the end
  EXPECT_THAT(smaller.ints("output_padding"), ElementsAre(0));
  EXPECT_FALSE(smaller.node().has("output_shape"));
  const One larger =
      one("ConvTranspose", inputs, {{"strides", Ints{3}}, {"output_shape", Ints{11}}});
  EXPECT_THAT(larger.ints("pads"), ElementsAre(0, 0));
  EXPECT_THAT(larger.ints("output_padding"), ElementsAre(2));
  const One same = one("ConvTranspose", {floats({1, 2, Dim("L")}), floats({2, 4, 4})},
                       {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}});
  EXPECT_THAT(same.ints("pads"), ElementsAre(1, 1));
  EXPECT_FALSE(same.node().has("auto_pad"));
}

TEST(Canonical, PaddingOfEverySizeMakesAsManyWindowsAsStridesFit) {
  for (const AutoPad mode : {AutoPad::kSameUpper, AutoPad::kSameLower}) {
    for (std::int64_t size = 0; size < 12; ++size) {
      for (std::int64_t extent = 1; extent < 8; ++extent) {
        for (std::int64_t stride = 1; stride < 6; ++stride) {
          const AxisPadding p = same_padding(mode, size, extent, stride);
          const std::int64_t windows = (size + stride - 1) / stride;
          const std::int64_t reach = (windows - 1) * stride + extent;
          EXPECT_EQ(p.begin + p.end, std::max<std::int64_t>(0, reach - size));
          const std::int64_t odd = mode == AutoPad::kSameUpper ? p.end - p.begin : p.begin - p.end;
          EXPECT_TRUE(odd == 0 || odd == 1);
        }
      }
    }
  }
}

TEST(Canonical, AxesCountFromTheFront) {
  EXPECT_EQ(need_int(one("Softmax", {floats({2, 3, 4})}, {}).node(), "axis"), 2);
  EXPECT_EQ(
      need_int(one("Flatten", {floats({2, 3, 4})}, {{"axis", std::int64_t{-1}}}).node(), "axis"),
      2);
  EXPECT_EQ(need_int(one("Gather", {floats({2, 3}), Type::tensor(DType::kInt64, Dims{1})},
                         {{"axis", std::int64_t{-2}}})
                         .node(),
                     "axis"),
            0);
  EXPECT_THAT(one("Transpose", {floats({2, 3, 4})}, {}).ints("perm"), ElementsAre(2, 1, 0));
  // Of no known rank: as the model has it.
  One unknown;
  const ValueId x = unknown.graph.add_input("x", Type::tensor(DType::kFloat32));
  unknown.id = unknown.graph.add_node("", "Softmax", {x}, {"y"});
  canonicalize(unknown.graph);
  EXPECT_EQ(need_int(unknown.node(), "axis"), -1);
}

TEST(Canonical, ConstantOperandsThatNameAxesCountFromTheFront) {
  Graph g;
  const ValueId x = g.add_input("x", floats({2, 3, 4}));
  const ValueId axes = g.add_constant("axes", Tensor::from_int64(Ints{-1, 0}));
  const NodeId sum = g.add_node("", "ReduceSum", {x, axes}, {"s"});
  const NodeId wide = g.add_node("", "Unsqueeze", {x, axes}, {"w"});
  infer_shapes(g);
  EXPECT_TRUE(canonicalize(g));
  EXPECT_THAT(g.constant(g.node(sum).inputs[1])->to_int64(), ElementsAre(2, 0));
  EXPECT_THAT(g.constant(g.node(wide).inputs[1])->to_int64(), ElementsAre(4, 0));
  EXPECT_EQ(need_int(g.node(sum), "keepdims"), 1);
}

TEST(Canonical, DefaultsOfUsersOpsAreWrittenOutToo) {
  OpDefinition op;
  op.domain = "test.canonical";
  op.name = "Scale";
  op.inputs = {{.name = "x"}};
  op.outputs = {{.name = "y"}};
  op.attributes = {{.name = "by", .value = 2.5F}};
  op.body = "f = Constant <value_float: float = @by> ()  y = Mul (x, f)";
  register_op(op);
  const One made = one("Scale", {floats({2})}, {}, "test.canonical");
  EXPECT_EQ(need_float(made.node(), "by"), 2.5F);
}

TEST(Canonical, ExportedModelsLeaveOutWhatTheStandardImplies) {
  const One made = one("AveragePool", {floats({1, 2, 8})}, {{"kernel_shape", Ints{2}}});
  const std::string model = export_onnx(made.graph);
  EXPECT_THAT(model, HasSubstr("kernel_shape"));
  for (const char* name : {"dilations", "strides", "pads", "ceil_mode", "count_include_pad"}) {
    EXPECT_TRUE(made.node().has(name)) << name;
    EXPECT_THAT(model, testing::Not(HasSubstr(name)));
  }
  EXPECT_EQ(exported_opsets(made.graph).at(""), 18);  // dilations came with 19
}

TEST(Canonical, AnUnknownPaddingIsNamed) {
  Graph g;
  const ValueId x = g.add_input("x", floats({1, 1, 4}));
  g.add_node("", "MaxPool", {x}, {"y"},
             {{"auto_pad", std::string("SAME")}, {"kernel_shape", Ints{2}}}, "pool");
  try {
    canonicalize(g);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(e.what(), HasSubstr("node 'pool' (MaxPool): its auto_pad 'SAME' is none of"));
  }
}

}  // namespace
}  // namespace xrt
