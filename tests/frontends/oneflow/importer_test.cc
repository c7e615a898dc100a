// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "frontends/oneflow/variables.h"
#include "ir/printer.h"
#include "xrt/error.h"
#include "xrt/model.h"
#include "xrt/oneflow.h"

namespace xrt {
namespace {

using testing::HasSubstr;

const std::string kData = "tests/frontends/oneflow/data/";

TEST(OneflowImporter, ReadsAFolder) {
  const Graph graph = import_model(kData + "cnn");
  ASSERT_EQ(graph.inputs().size(), 1U);
  EXPECT_EQ(graph.value(graph.inputs()[0]).name, "input_0");
  EXPECT_EQ(to_string(graph.type(graph.inputs()[0])), "float32[2,3,16,16]");
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "output_0");
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "float32[2,5]");
  EXPECT_TRUE(graph.find_value("net.0.weight"));
}

TEST(OneflowImporter, VariablesBecomeInputsWhereTheyAreNotGiven) {
  const std::string text = R"(module {
  oneflow.job @J(%a: tensor<2xf32>) -> tensor<2xf32> {
    %i = "oneflow.input"(%a) {op_name = "_J_input.0.0_2"} : (tensor<2xf32>) -> tensor<2xf32>
    %w = "oneflow.variable"() {op_name = "w"} : () -> tensor<2xf32>
    %s = "oneflow.broadcast_add"(%i, %w) {op_name = "sum"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "oneflow.assign"(%w, %s) {op_name = "keep"} : (tensor<2xf32>, tensor<2xf32>) -> ()
    %o = "oneflow.output"(%s) {op_name = "_J_output.0.0_2"} : (tensor<2xf32>) -> tensor<2xf32>
    oneflow.return %o : tensor<2xf32>
  }
})";
  const OneflowJob job = import_oneflow_job(text, {});
  EXPECT_EQ(job.inputs, std::vector<std::string>{"input_0"});
  EXPECT_EQ(job.variables, std::vector<std::string>{"w"});
  ASSERT_EQ(job.aliases.size(), 1U);
  EXPECT_EQ(job.aliases[0].first, "w");
  EXPECT_EQ(job.graph.outputs().size(), 2U);
}

TEST(OneflowImporter, ReadsMeta) {
  EXPECT_EQ(to_string(oneflow::parse_meta("shape {\n  dim: 8\n  dim: 3\n}\ndata_type: kFloat\n")),
            "float32[8,3]");
  EXPECT_EQ(to_string(oneflow::parse_meta("shape {\n}\ndata_type: kInt64\n")), "int64[]");
  for (const char* text : {"", "shape { dim: -1 } data_type: kFloat", "data_type: kFloat",
                           "shape { dim: 1 } data_type: kTensorBuffer", "shape { dim: 1",
                           "shape { dim: 99999999999999999999 } data_type: kFloat"}) {
    EXPECT_THROW(oneflow::parse_meta(text), Error) << text;
  }
}

TEST(OneflowImporter, AWrongAttributeIsAnError) {
  const std::string text = R"(oneflow.job @J(%a: tensor<2xf32>) -> tensor<2xf32> {
    %y = "oneflow.leaky_relu"(%a) {alpha = "x", op_name = "act"} : (tensor<2xf32>) -> tensor<2xf32>
    oneflow.return %y : tensor<2xf32>
  })";
  try {
    import_oneflow_job(text, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(e.what(), HasSubstr("'act' (oneflow.leaky_relu, line 2, column 10): attribute "
                                    "'alpha' is not a number"));
  }
}

// What OneFlow says of a result must be what follows from the op.
TEST(OneflowImporter, AContradictingResultTypeIsAnError) {
  const std::string text = R"(oneflow.job @J(%a: tensor<2xf32>) -> tensor<3xf32> {
    %y = "oneflow.relu"(%a) {op_name = "act"} : (tensor<2xf32>) -> tensor<3xf32>
    oneflow.return %y : tensor<3xf32>
  })";
  EXPECT_THROW(import_oneflow_job(text, {}), Error);
}

}  // namespace
}  // namespace xrt
