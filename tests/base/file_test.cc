// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/hash.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

TEST(File, WritesAtomicallyAndReadsBack) {
  const fs::path path = fs::temp_directory_path() / ("xrt_file_test_" + std::to_string(::getpid()));
  write_file_atomic(path, "first");
  write_file_atomic(path, "second");
  EXPECT_EQ(read_file(path), "second");
  const auto mapped = MappedFile::open(path);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(mapped->data()), mapped->size()),
            "second");
  fs::remove(path);
}

TEST(File, ErrorsNameThePathAndLeaveNothingBehind) {
  try {
    read_file("/nowhere/model.onnx");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("/nowhere/model.onnx"), std::string::npos);
  }
  EXPECT_THROW(read_file(fs::temp_directory_path()), Error);
  // /dev/full takes no byte: a full disk.
  EXPECT_THROW(write_file_atomic("/dev/full/x", "x"), Error);
}

TEST(Hash, FieldsDoNotRunIntoEachOther) {
  Hasher a;
  a.add("ab").add("c");
  Hasher b;
  b.add("a").add("bc");
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_EQ(a.digest().hex().size(), 32U);
}

}  // namespace
}  // namespace xrt
