// SPDX-License-Identifier: Apache-2.0
// StableHLO that users bring, and what the engine writes for them to read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "xrt/op.h"
#include "xrt/program.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

// y = factor · x + offset, by two functions of one text.
OpDefinition affine() {
  OpDefinition op;
  op.domain = "test.user_code";
  op.name = "Affine";
  op.revision = "1";
  op.inputs = {{.name = "x"}, {.name = "offset"}};
  op.outputs = {{.name = "y"}};
  op.attributes = {{.name = "factor", .value = 2.0F}};
  op.create = [](const OpCall&) -> OpKernel {
    return [](OpRun&) { throw Error(ErrorCode::kEngine, "the kernel is not to be used"); };
  };
  op.code["xla"] = [](const OpCall& call) {
    const std::string type =
        "tensor<" + std::to_string(call.input_types[0].static_dims()->at(0)) + "xf32>";
    const std::string factor = std::to_string(call.attribute<float>("factor"));
    return "func.func @main(%x: " + type + ", %offset: " + type + ") -> " + type +
           " { %0 = call @scaled(%x) : (" + type + ") -> " + type +
           " %1 = stablehlo.add %0, %offset : " + type + " return %1 : " + type +
           " } func.func private @scaled(%x: " + type + ") -> " + type +
           " { %c = stablehlo.constant dense<" + factor + "> : " + type +
           " %0 = stablehlo.multiply %x, %c : " + type + " return %0 : " + type + " }";
  };
  return op;
}

class XlaUserCodeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { register_op(affine()); }
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("xrt_user_code_" + std::to_string(::getpid()));
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Two nodes of the op, one after the other, with a constant that is too large for the text.
  static Graph graph() {
    constexpr std::int64_t n = 1000;
    Graph g;
    g.opsets()["test.user_code"] = 1;
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{n}));
    Tensor constant = Tensor::allocate(DType::kFloat32, {n});
    for (std::int64_t i = 0; i < n; ++i) constant.data<float>()[i] = static_cast<float>(i);
    const ValueId offset = g.add_constant("offset", constant);
    const ValueId once = add(g, {x, offset}, {});
    g.add_output(add(g, {once, offset}, {{"factor", -1.0F}}));
    return g;
  }
  static ValueId add(Graph& g, std::vector<ValueId> inputs, Attributes attributes) {
    const NodeId id =
        g.add_node("test.user_code", "Affine", std::move(inputs), {""}, std::move(attributes));
    return g.node(id).outputs[0];
  }

  fs::path folder_;
};

TEST_F(XlaUserCodeTest, FunctionsOfSeveralNodesStandInOneModule) {
  const auto program = Program::compile(graph(), {.engines = {"xla"}, .strict = true});
  Tensor x = Tensor::allocate(DType::kFloat32, {1000});
  for (std::int64_t i = 0; i < 1000; ++i) x.data<float>()[i] = static_cast<float>(i % 7);
  const Tensor y = program->run({{"x", x}}).at(0).tensor();
  for (std::int64_t i = 0; i < 1000; ++i) {
    // -(2x + i) + i
    ASSERT_EQ(y.data<float>()[i], static_cast<float>(-2 * (i % 7))) << i;
  }
}

TEST_F(XlaUserCodeTest, TheModuleAndItsWeightsCanBeWritten) {
  ProgramOptions options{.engines = {"xla"}, .strict = true};
  options.engine_options["xla"]["stablehlo_dir"] = (folder_ / "new").string();
  const auto program = Program::compile(graph(), options);
  const std::string name = program->explain().launches.at(0).function;
  const std::string text = read_file(folder_ / "new" / (name + ".mlir"));
  EXPECT_NE(text.find("func.func public @main("), std::string::npos);
  EXPECT_NE(text.find("stablehlo.multiply"), std::string::npos);
  const std::string weight = read_file(folder_ / "new" / (name + ".weight0.bin"));
  ASSERT_EQ(weight.size(), 1000 * sizeof(float));
  EXPECT_EQ(reinterpret_cast<const float*>(weight.data())[999], 999.0F);
  EXPECT_FALSE(fs::exists(folder_ / "new" / (name + ".weight1.bin")));
}

}  // namespace
}  // namespace xrt
