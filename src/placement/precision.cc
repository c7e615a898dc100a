// SPDX-License-Identifier: Apache-2.0
#include "placement/precision.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "xrt/error.h"

namespace xrt {
namespace {

// The words of the first "flags" line of /proc/cpuinfo; none elsewhere.
std::vector<std::string> cpu_flags() {
  std::ifstream info("/proc/cpuinfo");
  std::vector<std::string> flags;
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.push_back(word);
    break;
  }
  return flags;
}

}  // namespace

std::vector<std::string> fast_precisions() {
  static const std::vector<std::string> precisions = [] {
    const std::vector<std::string> flags = cpu_flags();
    const auto has = [&](std::string_view flag) {
      return std::find(flags.begin(), flags.end(), flag) != flags.end();
    };
    std::vector<std::string> found;
    if (has("amx_bf16") || has("avx512_bf16")) found.emplace_back("bf16");
    if (has("amx_fp16") || has("avx512_fp16")) found.emplace_back("f16");
    return found;
  }();
  return precisions;
}

bool offers_precision(const Engine& engine, const std::string& device,
                      const std::string& precision) {
  const std::optional<Precision> wanted = parse_precision(precision);
  if (!wanted) return false;
  if (*wanted == Precision::kF32) return true;
  const std::vector<DeviceInfo>& devices = engine.info().devices;
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
    const auto& list = info.precisions;
    return info.name == device && std::find(list.begin(), list.end(), *wanted) != list.end();
  });
}

Precision precision_for(const Engine& engine, const std::string& device,
                        const std::string& precision) {
  if (!offers_precision(engine, device, precision)) return Precision::kF32;
  return parse_precision(precision).value_or(Precision::kF32);
}

}  // namespace xrt
