// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "xrt/error.h"

namespace xrt::cuda {
namespace {

namespace fs = std::filesystem;

// Folders of Python packages that this process or its environment knows.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> found;
  if (const char* folders = std::getenv("XRT_PYTHON_PACKAGES"); folders != nullptr) {
    std::istringstream all(folders);
    for (std::string folder; std::getline(all, folder, ':');) {
      if (!folder.empty()) found.emplace_back(folder);
    }
  }
  std::error_code ignored;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* prefix = std::getenv(variable);
    if (prefix == nullptr || *prefix == '\0') continue;
    for (const auto& entry : fs::directory_iterator(fs::path(prefix) / "lib", ignored)) {
      if (entry.path().filename().string().starts_with("python3")) {
        found.push_back(entry.path() / "site-packages");
      }
    }
  }
  return found;
}

// Files of one of the names in NVIDIA's packages: nvidia/<part>/lib/<name>.
std::vector<fs::path> in_packages(const std::vector<std::string>& names) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::path& folder : package_folders()) {
    for (const std::string& name : names) {
      for (const auto& part : fs::directory_iterator(folder / "nvidia", ignored)) {
        fs::path file = part.path() / "lib" / name;
        if (fs::exists(file, ignored)) found.push_back(std::move(file));
      }
    }
  }
  return found;
}

void open_helpers(const fs::path& library, const std::vector<std::string>& beginnings) {
  std::error_code ignored;
  for (const std::string& beginning : beginnings) {
    for (const auto& file : fs::directory_iterator(library.parent_path(), ignored)) {
      if (!file.path().filename().string().starts_with(beginning)) continue;
      ::dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
}

}  // namespace

void* open_library(const LibraryName& name) {
  std::vector<fs::path> candidates;
  const char* given = name.variable == nullptr ? nullptr : std::getenv(name.variable);
  if (given != nullptr && *given != '\0') {
    candidates = {given};
  } else {
    for (const std::string& file : name.files) {
      if (void* open = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD)) return open;
    }
    candidates = in_packages(name.files);
    candidates.insert(candidates.end(), name.files.begin(), name.files.end());
  }
  std::string tried;
  for (const fs::path& file : candidates) {
    if (file.has_parent_path()) open_helpers(file, name.helpers);
    if (void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = ::dlerror();
    tried += std::string("\n  ") + (why != nullptr ? why : file.c_str());
  }
  std::string text(name.title);
  text += " cannot be opened. Install the Python package " + std::string(name.package);
  if (name.variable != nullptr) {
    text += std::string(", or set ") + name.variable + " to " + name.files.front();
  }
  throw Error(ErrorCode::kNotFound, text + ". Tried:" + tried);
}

void* function_of(void* library, std::string_view title, const char* name) {
  void* symbol = ::dlsym(library, name);
  if (symbol != nullptr) return symbol;
  throw Error(ErrorCode::kNotFound,
              std::string(title) + ": the library has no function '" + name + "'");
}

}  // namespace xrt::cuda
