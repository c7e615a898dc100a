// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/extensions.h"

#include <cstdlib>
#include <sstream>

#include "xrt/error.h"

namespace xrt::openvino {

namespace fs = std::filesystem;

const std::vector<fs::path>& extension_libraries() {
  static const std::vector<fs::path> libraries = [] {
    std::vector<fs::path> found;
    const char* paths = std::getenv("XRT_OPENVINO_EXTENSIONS");
    std::stringstream entries{std::string(paths == nullptr ? "" : paths)};
    for (std::string entry; std::getline(entries, entry, ':');) {
      if (entry.empty()) continue;
      std::error_code error;
      found.push_back(fs::canonical(entry, error));
      if (error) {
        throw Error(ErrorCode::kNotFound,
                    "openvino: XRT_OPENVINO_EXTENSIONS: '" + entry + "': " + error.message());
      }
    }
    return found;
  }();
  return libraries;
}

std::string extensions_version() {
  std::string version;
  for (const fs::path& library : extension_libraries()) {
    const auto time = fs::last_write_time(library).time_since_epoch().count();
    version += " + " + library.filename().string() + " (" + std::to_string(fs::file_size(library)) +
               "-" + std::to_string(time) + ")";
  }
  return version;
}

}  // namespace xrt::openvino
