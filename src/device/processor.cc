// SPDX-License-Identifier: Apache-2.0
#include "device/processor.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace xrt {

bool Processor::has(std::string_view flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

const Processor& processor() {
  static const Processor known = [] {
    Processor found;
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line) && found.flags.empty();) {
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      if (line.starts_with("model name")) found.model = line.substr(colon + 2);
      if (!line.starts_with("flags")) continue;
      std::istringstream words(line.substr(colon + 2));
      for (std::string word; words >> word;) found.flags.push_back(word);
    }
    return found;
  }();
  return known;
}

}  // namespace xrt
