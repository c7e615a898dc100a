// SPDX-License-Identifier: Apache-2.0
// A user's plugin creator in TensorRT's registry: found by the op's name, given the attributes as
// its fields. What follows, the plugin in a network, is TensorRT's; TensorRT-RTX takes none.
#include <NvInfer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engines/tensorrt/library.h"
#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {
namespace {

namespace nv = nvinfer1;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class Scale : public nv::IPluginV3 {
 public:
  nv::IPluginCapability* getCapabilityInterface(nv::PluginCapabilityType) noexcept override {
    return nullptr;
  }
  nv::IPluginV3* clone() noexcept override { return std::make_unique<Scale>().release(); }
};

class ScaleCreator : public nv::IPluginCreatorV3One {
 public:
  nv::IPluginV3* createPlugin(const char* name, const nv::PluginFieldCollection* fields,
                              nv::TensorRTPhase phase) noexcept override {
    node = name;
    builds = phase == nv::TensorRTPhase::kBUILD;
    seen.clear();
    for (int i = 0; i < fields->nbFields; ++i) {
      const nv::PluginField& field = fields->fields[i];
      std::string text;
      for (int k = 0; k < field.length; ++k) {
        switch (field.type) {
          case nv::PluginFieldType::kFLOAT32:
            text += std::to_string(static_cast<const float*>(field.data)[k]) + ";";
            break;
          case nv::PluginFieldType::kINT32:
            text += std::to_string(static_cast<const std::int32_t*>(field.data)[k]) + ";";
            break;
          case nv::PluginFieldType::kINT64:
            text += std::to_string(static_cast<const std::int64_t*>(field.data)[k]) + " wide;";
            break;
          case nv::PluginFieldType::kCHAR:
            text += static_cast<const char*>(field.data)[k];
            break;
          default:
            text += "?";
        }
      }
      seen[field.name] = text;
    }
    return std::make_unique<Scale>().release();
  }
  const nv::PluginFieldCollection* getFieldNames() noexcept override { return &declared_; }
  const char* getPluginName() const noexcept override { return "XrtTestScale"; }
  const char* getPluginVersion() const noexcept override { return "2"; }
  const char* getPluginNamespace() const noexcept override { return "mine"; }

  std::map<std::string, std::string> seen;
  std::string node;
  bool builds = false;

 private:
  std::array<nv::PluginField, 1> fields_ = {
      nv::PluginField("offsets", nullptr, nv::PluginFieldType::kINT64, 0)};
  nv::PluginFieldCollection declared_ = {1, fields_.data()};
};

class PluginsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_rtx()) GTEST_SKIP() << "networks are made without a GPU by TensorRT-RTX only";
    ASSERT_TRUE(getPluginRegistry()->registerCreator(creator_, "mine"));
  }
  void TearDown() override { getPluginRegistry()->deregisterCreator(creator_); }

  static Support ask(const std::string& version, Attributes more = {}) {
    Graph g("g");
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
    Attributes attributes = {{"plugin_version", version},
                             {"plugin_namespace", std::string("mine")},
                             {"alpha", 0.5F},
                             {"mode", std::string("fast")},
                             {"sizes", std::vector<std::int64_t>{3, -4}},
                             {"offsets", std::vector<std::int64_t>{std::int64_t{1} << 40U}}};
    for (auto& [name, value] : more) attributes[name] = value;
    const NodeId node = g.add_node("", "XrtTestScale", {x}, {"y"}, attributes, "scale");
    g.set_type(g.node(node).outputs[0], Type::tensor(DType::kFloat32, Dims{4}));
    return can_lower(g, node);
  }

  ScaleCreator creator_;
};

TEST_F(PluginsTest, AttributesBecomeItsFields) {
  const Support answer = ask("2");
  EXPECT_THAT(answer.reason(), HasSubstr("TensorRT-RTX takes no plugins"));
  EXPECT_EQ(creator_.node, "scale");
  EXPECT_TRUE(creator_.builds);
  EXPECT_THAT(creator_.seen,
              ElementsAre(Pair("alpha", "0.500000;"), Pair("mode", "fast"),
                          Pair("offsets", "1099511627776 wide;"), Pair("sizes", "3;-4;")));
}

TEST_F(PluginsTest, OtherVersionsAndKindsAreRefused) {
  EXPECT_THAT(ask("1").reason(), HasSubstr("no lowering for XrtTestScale"));
  EXPECT_THAT(ask("2", {{"sizes", std::vector<std::int64_t>{std::int64_t{1} << 40U}}}).reason(),
              HasSubstr("attribute sizes does not fit the plugin's int32"));
  EXPECT_THAT(ask("2", {{"words", std::vector<std::string>{"a"}}}).reason(),
              HasSubstr("attribute words is of a kind that a plugin does not take"));
}

}  // namespace
}  // namespace xrt::tensorrt
