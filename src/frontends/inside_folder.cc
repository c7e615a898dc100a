// SPDX-License-Identifier: Apache-2.0
#include "frontends/inside_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [at, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return at == folder.end() && rest != path.end();
}

}  // namespace

fs::path canonical_folder(const fs::path& folder) {
  std::error_code error;
  fs::path canonical = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
  if (error) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("folder '{}': {}", folder.string(), error.message()));
  }
  return canonical;
}

std::shared_ptr<const MappedFile> map_inside(const fs::path& folder, const std::string& location,
                                             const std::string& what) {
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    invalid(fmt::format("{}: its location leaves the model's folder: '{}'", what, location));
  }
  std::error_code error;
  const fs::path path = fs::canonical(folder / relative, error);
  if (error) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} '{}': {}", what, (folder / relative).string(), error.message()));
  }
  if (!is_inside(path, folder)) {
    invalid(fmt::format("{} '{}' is a link out of the model's folder", what, location));
  }
  if (!fs::is_regular_file(path, error)) {
    invalid(fmt::format("{} '{}' is not a file", what, location));
  }
  return MappedFile::open(path);
}

}  // namespace xrt
