// SPDX-License-Identifier: Apache-2.0
// Files: read whole, mapped, written atomically, temporary, locked between processes. Every failure
// is an xrt::Error (kNotFound where the file is missing, else kIo) that names the path and the
// cause.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// The content of a whole file, read-only: writing through it is a crash. A large file is mapped,
// and must not be truncated by others meanwhile; a small one is read, and may be.
class XRT_API MappedFile {
 public:
  static constexpr std::size_t kSmall = std::size_t{256} << 10;  // bytes

  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // The process holds none of a mapped file's pages any more; what is read again comes from the
  // file. A small one stays.
  void release_pages() const;

 private:
  MappedFile(const std::byte* data, std::size_t size, std::size_t mapped)
      : data_(data), size_(size), mapped_(mapped) {}
  const std::byte* data_;
  std::size_t size_;
  std::size_t mapped_;  // bytes of the mapping: more than size_ where the file was cut meanwhile
};

XRT_API std::string read_file(const std::filesystem::path& path);
// What lies in a folder, sorted. Of one that cannot be read it is an error, never less than all.
XRT_API std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);
// Readers see the old content or all of the new, also after a crash: a temporary file beside it,
// flushed, renamed over it. Mode 0600.
XRT_API void write_file_atomic(const std::filesystem::path& path, std::string_view content);
// The same from pieces, one after the other.
XRT_API void write_file_atomic(const std::filesystem::path& path,
                               std::span<const std::string_view> pieces);

// A file that takes its place when all of it is there: it is written aside, and what was there
// before stays until put(). Several that belong together are all written before the first is put,
// so that a full disk leaves all of the old ones.
class XRT_API NewFile {
 public:
  // For a file that the user named: with the mode that the process gives new files (that of the old
  // file where there is one), through symbolic links, and straight into what is no regular file
  // (/dev/stdout, a pipe), which a rename would replace.
  explicit NewFile(const std::filesystem::path& path);
  // One of mode 0600 that only this library reads.
  static NewFile of_library(const std::filesystem::path& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  void write(std::string_view content);
  // All that was written is on the disk: what is left to do needs no room there.
  void flush();
  void put();

 private:
  struct Place;
  static Place place_of(const std::filesystem::path& path);
  NewFile(const std::filesystem::path& path, const Place& place);

  std::filesystem::path path_;       // as the user named it
  std::filesystem::path target_;     // behind links
  std::filesystem::path temporary_;  // empty: written in place, or put
  int descriptor_ = -1;
};

// What writing a file that the user named would find after hours of work: there is no folder for
// it, a folder has its name, or it is `source`, which is read and would be gone. Throws
// kInvalidArgument.
XRT_API void check_output_file(const std::filesystem::path& path,
                               const std::filesystem::path& source = {});

// A file that the user named, see NewFile.
XRT_API void write_output_file(const std::filesystem::path& path, std::string_view content);
XRT_API void write_output_file(const std::filesystem::path& path,
                               std::span<const std::string_view> pieces);

// A folder that only this user can read (mode 0700), named after `purpose`; it goes with the
// object.
class XRT_API TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string_view purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// An exclusive lock between processes (flock) held while the object lives. The lock file is made
// where it is missing and left in place. A child that fork() made does not have the lock.
class XRT_API FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  // Without waiting: null where another one has it.
  static std::unique_ptr<FileLock> try_lock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  // `waits`: else a lock that another one has is descriptor_ -1.
  FileLock(const std::filesystem::path& path, bool waits);
  pid_t process_;
  int descriptor_;
};

}  // namespace xrt
