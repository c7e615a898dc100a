// SPDX-License-Identifier: Apache-2.0
// Makes the models of the cases and runs each as a test. That this file compiles says that C++
// reads xrt/xrt.h.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/capi/capi_test.h"
#include "xrt/graph.h"
#include "xrt/onnx.h"

namespace {

using xrt::Dim;
using xrt::DType;
using xrt::Graph;
using xrt::Shape;
using xrt::Tensor;
using xrt::Type;
using xrt::ValueId;

Type floats(Shape shape) { return Type::tensor(DType::kFloat32, std::move(shape)); }

Graph add() {
  Graph g("add");
  const ValueId a = g.add_input("a", floats({Dim("N"), 3}));
  const ValueId b = g.add_input("b", floats({Dim("N"), 3}));
  const float ones[] = {1, 1, 1};
  g.input_defaults()[b] = Tensor::from<float>(DType::kFloat32, {1, 3}, ones);
  g.add_output(g.add_op("Add", {a, b}, {}, "sum"));
  return g;
}

Graph relu(const std::string& suffix) {
  Graph g("relu");
  const ValueId x = g.add_input("x" + suffix, floats({2, 3}));
  const auto node = g.add_node("", "Relu", {x}, {"y" + suffix}, {}, "relu" + suffix);
  g.add_output(g.node(node).outputs[0]);
  return g;
}

Graph strings() {
  Graph g("strings");
  const ValueId x = g.add_input("x", Type::tensor(DType::kString, Shape{Dim("N")}));
  g.add_output(g.add_op("Identity", {x}, {}, "same"));
  return g;
}

Graph sequence() {
  Graph g("sequence");
  const ValueId a = g.add_input("a", floats({2}));
  const ValueId b = g.add_input("b", floats({2}));
  const ValueId whole = g.add_op("SequenceConstruct", {a, b}, {}, "whole");
  const ValueId one = g.add_constant("one", Tensor::scalar(std::int64_t{1}));
  g.add_output(g.add_op("SequenceAt", {whole, one}, {}, "second"));
  g.add_output(whole);
  return g;
}

class Case : public testing::Test {
 public:
  explicit Case(void (*run)()) : run_(run) {}
  void TestBody() override { run_(); }

 private:
  void (*run_)();
};

void add_cases(const char* suite, const capi_case* cases) {
  for (; cases->name != nullptr; ++cases) {
    void (*run)() = cases->run;
    testing::RegisterTest(suite, cases->name, nullptr, nullptr, __FILE__, __LINE__,
                          [run]() -> testing::Test* { return new Case(run); });
  }
}

}  // namespace

void capi_fail(const char* file, int line, const char* text) { ADD_FAILURE_AT(file, line) << text; }

const void* capi_model(const char* name, size_t* size) {
  static const std::map<std::string, std::string> models = {
      {"add", export_onnx(add())},          {"relu", export_onnx(relu(""))},
      {"strings", export_onnx(strings())},  {"sequence", export_onnx(sequence())},
      {"bytes", export_onnx(relu("\xFF"))},
  };
  const std::string& model = models.at(name);
  *size = model.size();
  return model.data();
}

const char* capi_folder(void) {
  static const std::string folder = [] {
    const auto path = std::filesystem::temp_directory_path() / "capi_test";
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    return path.string();
  }();
  return folder.c_str();
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  add_cases("CApi", capi_cases);
  add_cases("CApiHostile", capi_hostile);
  return RUN_ALL_TESTS();
}
