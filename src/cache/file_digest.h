// SPDX-License-Identifier: Apache-2.0
// Digests of large files that change rarely, so that a second start need not read a model to know
// that it is the same one.
//
// As Git does for its index, a digest is kept in the disk cache with what the file system says
// about the file: device, inode, size, and the times of the last change of content and of inode, in
// nanoseconds. A program cannot set the last of these, so a file that was written to, replaced or
// given back its old time is read again. So is one that was changed within a minute before it was
// read the last time: further writes to its mapped pages leave the times as they are until the
// kernel has written these pages back.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

namespace xrt {

class FileDigests {
 public:
  static constexpr std::chrono::seconds kSettled{60};

  // `dir`: the folder of the disk cache, already prepared. `settled`: how old a change must be.
  explicit FileDigests(std::filesystem::path dir, std::chrono::seconds settled = kSettled)
      : dir_(std::move(dir)), settled_(settled) {}

  // Digest of the file's content, 32 hexadecimal digits; reads the file unless it is known. That a
  // known file has another content now goes to the log (info). Throws as MappedFile::open().
  std::string of(const std::filesystem::path& file) const;

 private:
  std::filesystem::path dir_;
  std::chrono::seconds settled_;
};

// What the file system says about a file, as one line; empty where it cannot be asked.
std::string file_state(const std::filesystem::path& file);

}  // namespace xrt
