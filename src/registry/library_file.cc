// SPDX-License-Identifier: Apache-2.0
#include "registry/library_file.h"

#include <dlfcn.h>
#include <elf.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "registry/vendor_libraries.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
constexpr std::uint16_t kMachine = EM_NONE;  // not compared
#endif

[[noreturn]] void fail(const std::string& cause) { throw Error(ErrorCode::kEngine, cause); }

[[noreturn]] void fail_cut_short(std::uintmax_t size) {
  fail("the file is cut short (" + std::to_string(size) +
       " bytes are there): build or copy the library again");
}

template <typename T>
bool read_at(std::ifstream& in, std::uint64_t offset, T* to, std::size_t count = 1) {
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(count * sizeof(T)));
  return static_cast<bool>(in);
}

// The loader maps segments by what the headers say; touching a page past the file's end is SIGBUS.
void check_segments(std::ifstream& in, const Elf64_Ehdr& header, std::uintmax_t size) {
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return;  // the loader's to refuse
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!read_at(in, header.e_phoff, segments.data(), segments.size())) fail_cut_short(size);
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) fail_cut_short(size);
  }
}

[[noreturn]] void fail_missing(const char* symbol) {
  fail(std::string("it does not export ") + symbol);
}

// The table of sections, which the loader does not need, leads to the names that are exported.
// Without one, or with one that makes no sense, the loader has the last word.
void check_exports(std::ifstream& in, const Elf64_Ehdr& header, std::uintmax_t size,
                   const char* symbol) {
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) return;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_at(in, header.e_shoff, sections.data(), sections.size())) fail_cut_short(size);
  const auto fits = [&](const Elf64_Shdr& section) {
    return section.sh_offset <= size && section.sh_size <= size - section.sh_offset;
  };
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_DYNSYM) continue;
    if (table.sh_link >= sections.size()) return;
    const Elf64_Shdr& text = sections[table.sh_link];
    if (!fits(table) || !fits(text)) return;
    std::vector<Elf64_Sym> entries(table.sh_size / sizeof(Elf64_Sym));
    std::string names(text.sh_size, '\0');
    if (!read_at(in, table.sh_offset, entries.data(), entries.size()) ||
        !read_at(in, text.sh_offset, names.data(), names.size())) {
      return;
    }
    for (const Elf64_Sym& entry : entries) {
      if (entry.st_shndx == SHN_UNDEF || entry.st_name >= names.size()) continue;
      if (std::strcmp(names.c_str() + entry.st_name, symbol) == 0) return;
    }
    fail_missing(symbol);
  }
}

void check_file(const fs::path& file, const char* symbol) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error) fail(error.message());
  if (fs::is_directory(status)) fail("it is a folder, not a library");
  // Opening a pipe would wait for somebody to write into it.
  if (!fs::is_regular_file(status)) fail("it is no regular file");
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) fail(error.message());
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("it cannot be read: " + std::generic_category().message(errno));
  Elf64_Ehdr header{};
  if (!read_at(in, 0, &header)) fail("the file is too short for a library");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) fail("it is no ELF library");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      (kMachine != EM_NONE && header.e_machine != kMachine)) {
    fail("it is a library for another processor: build it for this one");
  }
  check_segments(in, header, size);
  check_exports(in, header, size, symbol);
}

}  // namespace

void* open_library(const fs::path& file, const char* symbol,
                   const std::vector<std::string>& vendor_folders, const std::string& install) {
  check_file(file, symbol);
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* told = ::dlerror();
    std::string cause = told != nullptr ? told : "dlopen gave no cause";
    // Its own search path does not lead to what it needs: the packages may lie elsewhere.
    const std::vector<std::string> faults = open_needed_libraries(file, vendor_folders);
    if (faults.empty()) library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      for (const std::string& fault : faults) cause += "; " + fault;
      if (!faults.empty() && !install.empty()) cause += "; to mend it: " + install;
      fail(cause);
    }
  }
  void* found = ::dlsym(library, symbol);
  if (found == nullptr) fail_missing(symbol);
  return found;
}

std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path{} : file.parent_path();
}

}  // namespace xrt
