// SPDX-License-Identifier: Apache-2.0
#include "base/control_group.h"

#include <fstream>
#include <string>
#include <system_error>

namespace xrt {
namespace {

namespace fs = std::filesystem;

// A line is "number:controllers:/path"; version 2's is "0::/path".
struct Line {
  std::string controllers;
  std::string path;
};

std::vector<Line> lines_of(const fs::path& groups) {
  std::vector<Line> lines;
  std::ifstream file(groups);
  for (std::string text; std::getline(file, text);) {
    const std::size_t first = text.find(':');
    const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
    if (second == std::string::npos) continue;
    lines.push_back({text.substr(first + 1, second - first - 1), text.substr(second + 1)});
  }
  return lines;
}

bool names(std::string_view list, std::string_view controller) {
  for (;;) {
    const std::size_t end = list.find(',');
    if (list.substr(0, end) == controller) return true;
    if (end == std::string_view::npos) return false;
    list.remove_prefix(end + 1);
  }
}

// The folders from the group's up to `mount`, as far as they are there.
void add_folders(const fs::path& mount, const std::string& path, std::vector<fs::path>& folders) {
  std::error_code ignored;
  for (fs::path group = fs::path(path).relative_path(); !group.empty();
       group = group.parent_path()) {
    if (fs::is_directory(mount / group, ignored)) folders.push_back(mount / group);
  }
  if (fs::is_directory(mount, ignored)) folders.push_back(mount);
}

}  // namespace

std::vector<fs::path> control_group_folders(std::string_view controller, const fs::path& mount,
                                            const fs::path& groups) {
  std::vector<fs::path> folders;
  const std::vector<Line> lines = lines_of(groups);
  for (const Line& line : lines) {
    if (line.controllers.empty()) add_folders(mount, line.path, folders);
  }
  for (const Line& line : lines) {
    if (names(line.controllers, controller)) add_folders(mount / controller, line.path, folders);
  }
  return folders;
}

}  // namespace xrt
