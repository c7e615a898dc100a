// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace xrt::report {
namespace {

Explanation sample() {
  Explanation explanation;
  Explanation::NodeRow node;
  node.name = "</script><script>alert(1)</script>";
  node.op = "Relu";
  node.engine = "native";
  node.function = "native_0";
  node.inputs = {"x", ""};
  node.outputs = {"\xFF not UTF-8"};
  node.input_types = {"float32[2]", ""};
  node.output_types = {"float32[2]"};
  node.refusals = {{"xla", "because \"so\" & <so>"}};
  explanation.nodes = {node};
  explanation.launches = {{}};
  explanation.launches[0].function = "native_0";
  explanation.launches[0].engine = "native";
  explanation.nodes_per_engine = {{"native", 1}};
  return explanation;
}

// What the page's script reads.
nlohmann::json data_of(const std::string& page) {
  const std::string open = R"(<script id="data" type="application/json">)";
  const std::size_t start = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(start, page.find("</script>", start) - start));
}

TEST(Html, HoldsTheExplanation) {
  const std::vector<Port> inputs = {{"x", Type::tensor(DType::kFloat32, Dims{2}), false}};
  const std::string page = html(sample(), inputs, {}, "model.onnx");
  const nlohmann::json data = data_of(page);
  EXPECT_EQ(data["title"], "model.onnx");
  EXPECT_EQ(data["inputs"][0]["type"], "float32[2]");
  EXPECT_EQ(data["nodes"][0]["refusals"]["xla"], "because \"so\" & <so>");
  EXPECT_EQ(data["nodes"][0]["outputs"][0], "\xEF\xBF\xBD not UTF-8");
}

TEST(Html, NamesCannotLeaveTheData) {
  const std::string page = html(sample(), {}, {}, "</script><b>");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_EQ(data_of(page)["nodes"][0]["name"], sample().nodes[0].name);
}

TEST(Html, NeedsNoNetwork) {
  const std::string page = html({}, {}, {}, "");
  for (const char* reference : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
}

TEST(Html, IsTheSameEachTime) {
  EXPECT_EQ(html(sample(), {}, {}, "m"), html(sample(), {}, {}, "m"));
}

}  // namespace
}  // namespace xrt::report
