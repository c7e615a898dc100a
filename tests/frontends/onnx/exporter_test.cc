// SPDX-License-Identifier: Apache-2.0
// Exported models are read back here; that ONNX's checker accepts them is tested in test_onnx.py.
#include "onnx/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "frontends/onnx/importer.h"
#include "ir/printer.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {
namespace {

Graph sample() {
  Graph g("sample");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("n"), 4}));
  const ValueId w = g.add_constant(
      "w", Tensor::from<float>(DType::kFloat32, {4}, std::vector<float>{1, 2, 3, 4}));
  g.add_output(g.add_op("Relu", {g.add_op("Mul", {x, w}, {}, "scaled")}, {}, "y"));
  g.metadata()["author"] = "me";
  infer_shapes(g);
  return g;
}

TEST(Exporter, WhatIsReadBackIsTheSame) {
  const Graph g = sample();
  const Graph back = import_onnx_bytes(export_onnx(g));
  EXPECT_EQ(print(back, PrintOptions::exact()), print(g, PrintOptions::exact()));
}

TEST(Exporter, DefaultsOfInputsAreKept) {
  Graph g = sample();
  g.input_defaults()[g.inputs()[0]] =
      Tensor::from<float>(DType::kFloat32, {1, 4}, std::vector<float>{1, 1, 1, 1});
  const Graph back = import_onnx_bytes(export_onnx(g));
  EXPECT_EQ(back.inputs().size(), 1U);
  EXPECT_EQ(back.input_defaults().size(), 1U);
}

// One name may occur around and inside of a sub-graph; ONNX allows no shadowing.
TEST(Exporter, NamesInSubgraphsDoNotShadow) {
  Graph g;
  const ValueId c = g.add_input("c", Type::tensor(DType::kBool, Dims{}));
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const auto branch = [&](bool pass_through) {
    auto body = std::make_shared<Graph>("branch");
    const ValueId inner = body->add_capture(x, "another name of x", g.type(x));
    body->add_output(pass_through ? inner : body->add_op("Neg", {inner}, {}, "c"));
    return body;
  };
  g.add_output(
      g.add_op("If", {c}, {{"then_branch", branch(false)}, {"else_branch", branch(true)}}, "y"));
  infer_shapes(g);
  const Graph back = import_onnx_bytes(export_onnx(g));
  EXPECT_EQ(to_string(back.type(back.outputs()[0])), "float32[2]");
  for (const Graph* body : Graph::subgraphs(back.node(back.nodes()[0]))) {
    EXPECT_EQ(body->node_count(), 1U);
  }
}

TEST(Exporter, AnOutputListedTwiceGetsTwoNames) {
  Graph g = sample();
  g.add_output(g.outputs()[0]);
  const Graph back = import_onnx_bytes(export_onnx(g));
  ASSERT_EQ(back.outputs().size(), 2U);
  EXPECT_NE(back.value(back.outputs()[0]).name, back.value(back.outputs()[1]).name);
}

TEST(Exporter, LargeTensorsAreReferredToByAddress) {
  const Graph g = sample();
  const std::string bytes = export_onnx(g, {.inline_limit = 4});
  const Tensor* w = g.constant(*g.find_value("w"));
  EXPECT_THAT(bytes, testing::HasSubstr(kMemoryLocation));
  EXPECT_THAT(bytes,
              testing::HasSubstr(std::to_string(reinterpret_cast<std::uintptr_t>(w->raw()))));
  EXPECT_THROW(import_onnx_bytes(bytes), Error);  // addresses mean nothing to a reader of files
}

TEST(Exporter, FilesWithExternalDataAreReadBack) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "xrt_export_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Graph g = sample();
  const fs::path path = fs::path(folder) / "m.onnx";
  export_onnx_file(g, path, {.inline_limit = 4});
  EXPECT_EQ(fs::file_size(fs::path(folder) / "m.onnx.data"), 16U);
  const Graph back = import_onnx(path);
  EXPECT_EQ(print(back, PrintOptions::exact()), print(g, PrintOptions::exact()));
  fs::remove_all(folder);
}

// The data fit on the disk, the model behind them does not.
TEST(Exporter, AModelThatCannotBeWrittenLeavesTheOldOneAndItsData) {
  const TemporaryFolder folder("exporter");
  const std::filesystem::path path = folder.path() / "m.onnx";
  const Graph g = sample();
  export_onnx_file(g, path, {.inline_limit = 4});
  const std::string model = read_file(path);
  const std::filesystem::path data_path = path.string() + ".data";
  const std::string data = read_file(data_path);
  Graph other = sample();
  const ValueId w = *other.find_value("w");
  Tensor changed = Tensor::allocate(other.constant(w)->dtype(), other.constant(w)->dims());
  std::memset(changed.raw(), 1, changed.bytes());
  other.set_constant(w, std::move(changed));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{data.size(), before.rlim_max};
  ASSERT_LT(data.size(), model.size());
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(export_onnx_file(other, path, {.inline_limit = 4}), Error);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_file(path), model);
  EXPECT_EQ(read_file(data_path), data);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()),
                          std::filesystem::directory_iterator()),
            2);
}

}  // namespace
}  // namespace xrt
