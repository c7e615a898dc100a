// SPDX-License-Identifier: Apache-2.0
#include "registry/vendor_libraries.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "registry/library_file.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

// An ELF library names few libraries and no long ones; a file that claims more is damaged.
constexpr std::uint64_t kMostBytes = 16 << 20;

template <typename T>
std::vector<T> read_table(std::ifstream& in, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > kMostBytes) return {};
  std::vector<T> table(bytes / sizeof(T));
  in.clear();
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(table.data()),
          static_cast<std::streamsize>(table.size() * sizeof(T)));
  if (!in) return {};
  return table;
}

// Where the loaded byte `address` lies in the file; 0 where no segment holds it.
std::uint64_t in_file(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return 0;
}

bool is_open(const std::string& name) {
  void* library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return false;
  ::dlclose(library);
  return true;
}

// "libopenvino.so" of "libopenvino.so.2641".
std::string_view stem(std::string_view name) {
  const std::size_t at = name.find(".so");
  return at == std::string_view::npos ? name : name.substr(0, at + 3);
}

void add_unique(std::vector<fs::path>& to, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return;
  if (std::find(to.begin(), to.end(), folder) == to.end()) to.push_back(folder);
}

}  // namespace

std::vector<std::string> needed_libraries(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const auto headers = read_table<Elf64_Ehdr>(in, 0, sizeof(Elf64_Ehdr));
  if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      headers[0].e_ident[EI_CLASS] != ELFCLASS64 || headers[0].e_phentsize != sizeof(Elf64_Phdr)) {
    return {};
  }
  const auto segments =
      read_table<Elf64_Phdr>(in, headers[0].e_phoff, headers[0].e_phnum * sizeof(Elf64_Phdr));
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto entries = read_table<Elf64_Dyn>(in, segment.p_offset, segment.p_filesz);
    std::uint64_t text_at = 0;
    std::uint64_t text_bytes = 0;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_STRTAB) text_at = in_file(segments, entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRSZ) text_bytes = entry.d_un.d_val;
    }
    auto text = read_table<char>(in, text_at, text_at == 0 ? 0 : text_bytes);
    text.push_back('\0');
    std::vector<std::string> names;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < text.size()) {
        names.emplace_back(text.data() + entry.d_un.d_val);
      }
    }
    return names;
  }
  return {};
}

std::vector<fs::path> package_folders() {
  std::vector<fs::path> found;
  if (const char* folders = std::getenv("XRT_PYTHON_PACKAGES"); folders != nullptr) {
    std::istringstream all(folders);
    for (std::string folder; std::getline(all, folder, ':');) {
      if (!folder.empty()) add_unique(found, folder);
    }
  }
  // openxrt/lib/libxrt.so of a wheel.
  const fs::path own = own_folder();
  if (own.filename() == "lib" && own.parent_path().filename() == "openxrt") {
    add_unique(found, own.parent_path().parent_path());
  }
  std::error_code ignored;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* prefix = std::getenv(variable);
    if (prefix == nullptr || *prefix == '\0') continue;
    for (const auto& entry : fs::directory_iterator(fs::path(prefix) / "lib", ignored)) {
      if (entry.path().filename().string().starts_with("python3")) {
        add_unique(found, entry.path() / "site-packages");
      }
    }
  }
  return found;
}

std::vector<std::string> open_needed_libraries(const fs::path& file,
                                               const std::vector<std::string>& folders) {
  std::vector<fs::path> places;
  for (const fs::path& packages : package_folders()) {
    for (const std::string& folder : folders) {
      add_unique(places, (packages / folder).lexically_normal());
    }
  }
  std::vector<std::string> faults;
  for (const std::string& name : needed_libraries(file)) {
    if (is_open(name)) continue;
    std::string found;
    bool opened = false;
    for (const fs::path& place : places) {
      std::error_code ignored;
      const fs::path candidate = place / name;
      if (fs::exists(candidate, ignored)) {
        // It stays open: the engine's library needs it.
        opened = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr;
        if (opened) break;
        const char* cause = ::dlerror();
        found += (found.empty() ? "" : "; ") + candidate.string() +
                 " cannot be opened: " + (cause != nullptr ? cause : "dlopen gave no cause");
        continue;
      }
      for (const auto& entry : fs::directory_iterator(place, ignored)) {
        const std::string other = entry.path().filename().string();
        if (other.find(".so") != std::string::npos && stem(other) == stem(name)) {
          found += (found.empty() ? "" : "; ") + entry.path().string();
        }
      }
    }
    if (opened || (found.empty() && ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr)) {
      continue;
    }
    faults.push_back("wanted " + name + ", found " + (found.empty() ? "none" : found));
  }
  return faults;
}

}  // namespace xrt
