// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "frontends/onnx/importer.h"
#include "tests/frontends/onnx/wire.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using namespace wire;  // NOLINT(google-build-using-namespace): the vocabulary of every test here
namespace fs = std::filesystem;
using testing::HasSubstr;
using Entries = std::vector<std::pair<std::string, std::string>>;

class ExternalDataTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "xrt_external_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "model";
    fs::create_directories(folder_ / "sub");
    write(folder_ / "weights.bin", std::string(16, '\0') + raw<float>({1, 2, 3, 4}));
    write(folder_ / "sub" / "weights.bin", raw<float>({5, 6, 7, 8}));
    write(root_ / "secret.bin", raw<float>({9, 9, 9, 9}));
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  Graph load(const Entries& entries, const Ints& dims = {4}) {
    const fs::path path = folder_ / "model.onnx";
    write(path, model(18, {.nodes = {node("Add", {"x", "w"}, {"y"})},
                           .inputs = {value("x", kFloat, {4})},
                           .outputs = {untyped("y")},
                           .initializers = {external("w", kFloat, dims, entries)}}));
    return import_onnx(path);
  }

  std::string refusal(const Entries& entries, ErrorCode code = ErrorCode::kInvalidModel) {
    try {
      load(entries);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_THAT(e.what(), HasSubstr("initializer 'w'"));
      return e.what();
    }
    ADD_FAILURE() << "the model was accepted";
    return "";
  }

  fs::path root_, folder_;
};

TEST_F(ExternalDataTest, IsMappedAtItsOffset) {
  const Graph g = load({{"location", "weights.bin"}, {"offset", "16"}, {"length", "16"}});
  const Tensor* w = g.constant(*g.find_value("w"));
  EXPECT_EQ(w->data<float>()[3], 4.0F);
}

TEST_F(ExternalDataTest, MayLieInASubfolder) {
  const Graph g = load({{"location", "sub/weights.bin"}});
  EXPECT_EQ(g.constant(*g.find_value("w"))->data<float>()[0], 5.0F);
}

TEST_F(ExternalDataTest, OutlivesTheFileNameAndTheImport) {
  Tensor w;
  {
    const Graph g = load({{"location", "weights.bin"}, {"offset", "16"}});
    w = *g.constant(*g.find_value("w"));
  }
  fs::remove(folder_ / "weights.bin");
  EXPECT_EQ(w.data<float>()[0], 1.0F);
}

TEST_F(ExternalDataTest, UnalignedDataIsStillRead) {
  write(folder_ / "odd.bin", "x" + raw<float>({1, 2, 3, 4}));
  const Graph g = load({{"location", "odd.bin"}, {"offset", "1"}});
  EXPECT_EQ(g.constant(*g.find_value("w"))->data<float>()[2], 3.0F);
}

TEST_F(ExternalDataTest, StaysInsideTheFolder) {
  EXPECT_THAT(refusal({{"location", "../secret.bin"}}), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(refusal({{"location", "sub/../../secret.bin"}}), HasSubstr("leaves"));
  EXPECT_THAT(refusal({{"location", (root_ / "secret.bin").string()}}), HasSubstr("leaves"));
  EXPECT_THAT(refusal({{"location", ""}}), HasSubstr("leaves"));
  EXPECT_THAT(refusal({{"location", std::string("weights.bin\0/x", 14)}}), HasSubstr("leaves"));
  refusal({});
}

TEST_F(ExternalDataTest, LinksOutOfTheFolderAreRefused) {
  fs::create_symlink(root_ / "secret.bin", folder_ / "link.bin");
  fs::create_directory_symlink(root_, folder_ / "up");
  EXPECT_THAT(refusal({{"location", "link.bin"}}), HasSubstr("link out of"));
  EXPECT_THAT(refusal({{"location", "up/secret.bin"}}), HasSubstr("link out of"));
  fs::create_symlink(folder_ / "weights.bin", folder_ / "inside.bin");
  EXPECT_NO_THROW(load({{"location", "inside.bin"}}));
}

TEST_F(ExternalDataTest, RangesStayInsideTheFile) {
  EXPECT_THAT(refusal({{"location", "weights.bin"}, {"offset", "20"}}), HasSubstr("outside"));
  EXPECT_THAT(refusal({{"location", "weights.bin"}, {"offset", "18446744073709551615"}}),
              HasSubstr("outside"));
  EXPECT_THAT(refusal({{"location", "weights.bin"}, {"offset", "-1"}}), HasSubstr("not a number"));
  EXPECT_THAT(refusal({{"location", "weights.bin"}, {"length", "8"}}), HasSubstr("8 bytes"));
  EXPECT_THROW(load({{"location", "weights.bin"}}, {1000000}), Error);
}

TEST_F(ExternalDataTest, MissingFilesAndFoldersAreNamed) {
  EXPECT_THAT(refusal({{"location", "none.bin"}}, ErrorCode::kNotFound), HasSubstr("none.bin"));
  EXPECT_THAT(refusal({{"location", "sub"}}), HasSubstr("not a file"));
}

}  // namespace
}  // namespace xrt
