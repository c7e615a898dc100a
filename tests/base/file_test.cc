// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "base/hash.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

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

TEST(File, SmallFilesMayBeCutWhileTheyAreOpen) {
  const fs::path path = fs::temp_directory_path() / ("xrt_cut_" + std::to_string(::getpid()));
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, MappedFile::kSmall}) {
    const std::string content(size, 'x');
    write_file_atomic(path, content);
    const auto mapped = MappedFile::open(path);
    fs::resize_file(path, 0);
    mapped->release_pages();
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(mapped->data()), mapped->size()),
              content);
  }
  const std::string large(MappedFile::kSmall + 1, 'y');
  write_file_atomic(path, large);
  const auto mapped = MappedFile::open(path);
  mapped->release_pages();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(mapped->data()), mapped->size()), large);
  fs::remove(path);
}

TEST(File, OutputsGoThroughLinksAndIntoDevicesAndKeepTheirModes) {
  const fs::path folder = fs::temp_directory_path() / ("xrt_out_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const mode_t mask = ::umask(022);
  write_output_file(folder / "new", "first");
  ::umask(mask);
  EXPECT_EQ(fs::status(folder / "new").permissions(), fs::perms(0644));

  fs::permissions(folder / "new", fs::perms(0640));
  fs::create_symlink("new", folder / "link");
  write_output_file(folder / "link", "second");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "new"), "second");
  EXPECT_EQ(fs::status(folder / "new").permissions(), fs::perms(0640));

  fs::create_symlink("later", folder / "dangling");
  write_output_file(folder / "dangling", "third");
  EXPECT_EQ(read_file(folder / "later"), "third");

  // What is no regular file stays what it is.
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_output_file(pipe, "piped");
  std::array<char, 8> text{};
  EXPECT_EQ(::read(reader, text.data(), text.size()), 5);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));

  EXPECT_THROW(write_output_file(folder, "x"), Error);
  fs::remove_all(folder);
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

TEST(File, OutputsAreCheckedBeforeTheWork) {
  const TemporaryFolder folder("outputs");
  const fs::path model = folder.path() / "model.onnx";
  write_output_file(model, "a model");
  fs::create_symlink(model, folder.path() / "link");
  check_output_file(folder.path() / "other.onnx", model);
  check_output_file(model);  // an older result
  check_output_file("/dev/null", model);
  const auto refusal = [&](const fs::path& path) -> std::string {
    try {
      check_output_file(path, model);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(model), HasSubstr("it is the file that is read"));
  EXPECT_THAT(refusal(folder.path() / "link"), HasSubstr("it is the file that is read"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal(folder.path() / "none" / "x"), HasSubstr("there is no folder"));
}

// A limit of this process, as long as the object lives.
class Limit {
 public:
  Limit(__rlimit_resource kind, rlim_t most) : kind_(kind) {
    ::getrlimit(kind_, &before_);
    const rlimit less{most, before_.rlim_max};
    ::setrlimit(kind_, &less);
  }
  ~Limit() { ::setrlimit(kind_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource kind_;
  rlimit before_{};
};

ErrorCode code_of_listing(const fs::path& folder) {
  try {
    folder_entries(folder);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(folder.string()), std::string::npos);
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

TEST(File, ABoundOnFilesIsAnErrorAndNoSignal) {
  const TemporaryFolder folder("file_test");
  const fs::path path = folder.path() / "file";
  write_output_file(path, "old");
  try {
    // A file of 4 bytes is all there may be.
    const Limit tiny(RLIMIT_FSIZE, 4);
    write_output_file(path, "what is longer than that");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  sigset_t waiting;
  ::sigpending(&waiting);
  EXPECT_EQ(::sigismember(&waiting, SIGXFSZ), 0);
}

TEST(File, EntriesOfAFolderAreAllOfThemOrAnError) {
  const TemporaryFolder folder("file_test");
  for (const char* name : {"b", "a", "c"}) write_file_atomic(folder.path() / name, "x");
  const std::vector<fs::path> wanted = {folder.path() / "a", folder.path() / "b",
                                        folder.path() / "c"};
  EXPECT_EQ(folder_entries(folder.path()), wanted);
  EXPECT_EQ(code_of_listing(folder.path() / "none"), ErrorCode::kNotFound);
  const Limit no_descriptors(RLIMIT_NOFILE, 0);
  EXPECT_EQ(code_of_listing(folder.path()), ErrorCode::kIo);
}

TEST(File, NewFilesThatAreNotPutLeaveTheOldOnes) {
  const TemporaryFolder folder("file_test");
  write_output_file(folder.path() / "first", "old");
  {
    NewFile first(folder.path() / "first");
    NewFile second(folder.path() / "second");
    first.write("new");
    second.write("new");
    first.flush();
    EXPECT_EQ(read_file(folder.path() / "first"), "old");
    EXPECT_FALSE(fs::exists(folder.path() / "second"));
    second.put();
  }
  EXPECT_EQ(read_file(folder.path() / "first"), "old");
  EXPECT_EQ(read_file(folder.path() / "second"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(File, TemporaryFoldersArePrivateAndGoWithTheObject) {
  fs::path path;
  {
    const TemporaryFolder folder("test"), other("test");
    path = folder.path();
    EXPECT_NE(path, other.path());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms(0700));
    write_file_atomic(path / "file", "x");
  }
  EXPECT_FALSE(fs::exists(path));
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
