// SPDX-License-Identifier: Apache-2.0
// Digests of files are those of their content, whether or not the file is read.
#include "cache/file_digest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/file.h"
#include "cache/cache_entry.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

class FileDigest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("xrt_digest_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::permissions(folder_, fs::perms::owner_all);
    file_ = folder_ / "weights";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string digest() const {
    const std::string digest = FileDigests(folder_, std::chrono::seconds(1)).of(file_);
    finish_writing();
    return digest;
  }
  // Puts another digest in the place of the one that is kept.
  void forge(const std::string& digest) const {
    for (const auto& e : fs::directory_iterator(folder_)) {
      if (!e.path().filename().string().starts_with("file-")) continue;
      const auto entry = read_entry(e.path());
      ASSERT_TRUE(entry);
      std::string text(static_cast<const char*>(std::as_const(entry->payload).raw()),
                       entry->payload.bytes());
      text.replace(0, digest.size(), digest);
      const std::string_view piece = text;
      write_entry(folder_, e.path().stem().string(), entry->header, std::span(&piece, 1));
    }
  }
  static void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(3100)); }

  fs::path folder_, file_;
};

TEST_F(FileDigest, AFileThatWasJustWrittenIsReadAgain) {
  write_file_atomic(file_, "one");
  const std::string one = digest();
  EXPECT_EQ(one.size(), 32U);
  forge(std::string(32, 'a'));
  EXPECT_EQ(digest(), one);
  write_file_atomic(file_, "two");
  EXPECT_NE(digest(), one);
}

TEST_F(FileDigest, AKnownFileIsNotReadUntilItChanges) {
  write_file_atomic(file_, "one");
  const std::string one = digest();
  settle();
  EXPECT_EQ(digest(), one);
  const std::string other(32, 'a');
  forge(other);
  EXPECT_EQ(digest(), other);  // what is kept is believed: nothing was read

  // In place, as long as before, and with the old time given back.
  struct stat before {};
  ASSERT_EQ(::stat(file_.c_str(), &before), 0);
  std::fstream(file_, std::ios::in | std::ios::out).write("two", 3);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  struct stat after {};
  ASSERT_EQ(::stat(file_.c_str(), &after), 0);
  ASSERT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  ASSERT_EQ(after.st_size, before.st_size);
  const std::string two = digest();
  EXPECT_NE(two, other);
  EXPECT_NE(two, one);
  write_file_atomic(file_, "one");
  EXPECT_EQ(digest(), one);
}

}  // namespace
}  // namespace xrt
