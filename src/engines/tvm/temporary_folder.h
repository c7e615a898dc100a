// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "xrt/error.h"

namespace xrt::tvm_engine {

// A folder that only this user can read (mode 0700); it goes with the object. kIo where none can be
// made.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "xrt-tvm-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      const int code = errno;
      throw Error(ErrorCode::kIo,
                  "tvm: cannot make a folder like " + pattern + ": " + std::strerror(code));
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace xrt::tvm_engine
