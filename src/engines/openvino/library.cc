// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/library.h"

#include <dlfcn.h>

#include <openvino/core/version.hpp>
#include <sstream>

namespace xrt::openvino {

std::string readable(const std::string& message) {
  std::istringstream lines(message);
  std::string out, line;
  while (std::getline(lines, line)) {
    const auto start = line.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    line = line.substr(start);
    // "Exception from src/…/x.cpp:12:", "Check '…' failed at src/…/x.cpp:12:"
    if (line.starts_with("Exception from ") && line.ends_with(":")) continue;
    if (const auto at = line.find(" failed at src/");
        at != std::string::npos && line.ends_with(":")) {
      line = line.substr(0, at) + " failed:";
    }
    if (!out.empty()) out += ' ';
    out += line;
    if (out.size() > 600) break;
  }
  return out.empty() ? message : out;
}

std::string library_version() { return ov::get_openvino_version().buildNumber; }

std::string library_location() {
  Dl_info info{};
  const auto symbol = reinterpret_cast<void*>(&ov::get_openvino_version);
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

}  // namespace xrt::openvino
