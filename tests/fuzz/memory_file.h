// SPDX-License-Identifier: Apache-2.0
// A file that lies in memory, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace xrt::fuzz {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view content) {
    const auto size = static_cast<ssize_t>(content.size());
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, content.data(), content.size(), 0) != size) {
      std::abort();
    }
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace xrt::fuzz
