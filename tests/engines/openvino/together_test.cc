// SPDX-License-Identifier: Apache-2.0
// OpenVINO and the native engine in one process: their libraries both use TBB, of which a process
// must hold one copy, whichever engine comes first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/engines/openvino/engine_fixture.h"

namespace xrt {
namespace {

using namespace testing_openvino;  // NOLINT(google-build-using-namespace)
using ::testing::SizeIs;

std::set<std::string> mapped_libraries(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> found;
  std::string line;
  while (std::getline(maps, line)) {
    const auto slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::filesystem::path path = line.substr(slash);
    if (path.filename().string().starts_with(name)) found.insert(path.string());
  }
  return found;
}

// Run in a process of its own by the test below, with the order in XRT_TEST_ORDER.
TEST(TogetherChild, DISABLED_BothCompute) {
  const std::string order = std::getenv("XRT_TEST_ORDER");
  const auto comma = order.find(',');
  const std::vector<std::shared_ptr<const Engine>> engines = {get_engine(order.substr(0, comma)),
                                                              get_engine(order.substr(comma + 1))};
  Graph graph("matmul");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape{64, 64}));
  const ValueId w = graph.add_constant("w", floats({64, 64}, std::vector<float>(64 * 64, 0.5F)));
  const ValueId y = graph.add_op("MatMul", {x, w});
  graph.set_type(y, graph.type(x));
  graph.add_output(y);
  const Tensor ones = floats({64, 64}, std::vector<float>(64 * 64, 1.0F));
  for (int round = 0; round < 2; ++round) {
    for (const auto& engine : engines) {
      ASSERT_TRUE(engine->supports({view_of(graph), graph.nodes()[0]})) << engine->name();
      CompileOptions options;
      options.num_threads = 2;
      const auto executable = engine->compile(function_of("f", graph), options);
      EXPECT_THAT(values(run(*executable, {ones}, 1)[0]), ::testing::Each(32.0F)) << engine->name();
    }
  }
  EXPECT_THAT(mapped_libraries("libtbb.so"), SizeIs(1));
}

TEST(Together, WithTheNativeEngineInEitherOrder) {
  const std::vector<std::string> names = engine_names();
  if (std::find(names.begin(), names.end(), "native") == names.end()) {
    GTEST_SKIP() << "native is not built";
  }
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const std::string order : {"openvino,native", "native,openvino"}) {
    const std::string command = "XRT_TEST_ORDER=" + order + " '" + program +
                                "' --gtest_also_run_disabled_tests "
                                "--gtest_filter=TogetherChild.* 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output(1 << 16, '\0');
    output.resize(fread(output.data(), 1, output.size(), pipe));
    EXPECT_EQ(pclose(pipe), 0) << order << "\n" << output;
  }
}

}  // namespace
}  // namespace xrt
