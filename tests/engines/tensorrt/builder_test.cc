// SPDX-License-Identifier: Apache-2.0
// What the engine claims, the vendor's builder must build. Every node of ONNX's own node tests is
// asked for, and the graphs whose nodes are all claimed are built, with no GPU, by TensorRT-RTX.
//
// By default the first case of each set of ops is built. XRT_TENSORRT_CASES=<substring> asks for
// all cases whose name holds it ("test" for all there are); XRT_TENSORRT_REPORT=<file> writes one
// line per case: built, refused (with the reason) or failed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/tensorrt/library.h"
#include "engines/tensorrt/lowering.h"
#include "engines/tensorrt/plan.h"
#include "engines/tensorrt/ranges.h"
#include "xrt/error.h"
#include "xrt/onnx.h"

namespace xrt::tensorrt {
namespace {

namespace fs = std::filesystem;

std::string refusal_of(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Support answer = can_lower(graph, id);
    if (!answer) return fmt::format("{}: {}", graph.node(id).qualified_op(), answer.reason());
  }
  return {};
}

BuildOptions sm_89() {
  BuildOptions build;
  build.compute_capabilities = {89};
  return build;
}

// Open dimensions at one length, as a first run would set them.
Ranges some_ranges(const Graph& graph) {
  Ranges ranges = initial_ranges(graph, {});
  for (auto& axes : ranges) {
    for (Range& r : axes) {
      if (!r.known()) r = {1, 2, 4};
    }
  }
  return ranges;
}

TEST(Builder, BuildsWhateverIsClaimedOfOnnxNodeTests) {
  if (!is_rtx()) GTEST_SKIP() << "only TensorRT-RTX builds without a GPU";
  const char* python = std::getenv("XRT_TEST_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "XRT_TEST_PYTHON names no Python";
  const fs::path folder = fs::path(::testing::TempDir()) / "xrt_tensorrt_cases";
  if (!fs::exists(folder / "test_relu.onnx")) {
    const std::string command =
        fmt::format("'{}' tests/engines/tensorrt/make_cases.py '{}'", python, folder.string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  std::vector<fs::path> files;
  const char* only = std::getenv("XRT_TENSORRT_CASES");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const char* wanted = only == nullptr ? "test" : only;
    // The expanded cases are function bodies, which the lowerings use by themselves.
    if (only == nullptr && name.find("_expanded") != std::string::npos) continue;
    if (name.find(wanted) != std::string::npos) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::ofstream report;
  if (const char* path = std::getenv("XRT_TENSORRT_REPORT")) report.open(path);
  int built = 0;
  int refused = 0;
  std::set<std::string> ops;
  std::set<std::set<std::string>> sets;
  for (const fs::path& file : files) {
    const std::string name = file.stem().string();
    Graph graph;
    try {
      graph = import_onnx(file);
    } catch (const Error& error) {
      report << name << "\tunread\t" << error.what() << "\n";
      continue;
    }
    std::set<std::string> own;
    for (const NodeId id : graph.nodes()) own.insert(graph.node(id).qualified_op());
    if (only == nullptr && sets.contains(own)) continue;
    const std::string refusal = refusal_of(graph);
    if (!refusal.empty()) {
      report << name << "\trefused\t" << refusal << std::endl;
      ++refused;
      continue;
    }
    try {
      const Tensor plan = build_plan(graph, name, some_ranges(graph), sm_89(), {});
      EXPECT_GT(plan.bytes(), 100U) << name;
      report << name << "\tbuilt" << std::endl;
      ++built;
      ops.insert(own.begin(), own.end());
      sets.insert(own);
    } catch (const Error& error) {
      report << name << "\tfailed\t" << error.what() << std::endl;
      ADD_FAILURE() << name << ": claimed, but not built: " << error.what();
    }
  }
  fmt::print("{} models built, {} refused; {} ops\n", built, refused, ops.size());
  if (only == nullptr) {
    EXPECT_GE(ops.size(), 130U);
  } else if (std::string_view(only) == "test") {
    EXPECT_GE(built, 1400);
  }
}

}  // namespace
}  // namespace xrt::tensorrt
