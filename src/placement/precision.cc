// SPDX-License-Identifier: Apache-2.0
#include "placement/precision.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "xrt/error.h"

namespace xrt {
namespace {

struct Offer {
  std::string_view engine, precision, key, value;
};

constexpr Offer kOffers[] = {
    {"native", "bf16", "precision", "bf16"},
    {"openvino", "bf16", "INFERENCE_PRECISION_HINT", "bf16"},
    {"openvino", "f16", "INFERENCE_PRECISION_HINT", "f16"},
};

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

void check_precision(const ProgramOptions& options) {
  for (const char* known : {"f32", "bf16", "f16", "auto"}) {
    if (options.precision == known) return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "precision is '" + options.precision + "'; f32, bf16, f16 or auto is wanted");
}

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

bool offers_precision(const std::string& engine, const std::string& precision) {
  if (precision == "f32") return true;
  return std::any_of(std::begin(kOffers), std::end(kOffers), [&](const Offer& offer) {
    return offer.engine == engine && offer.precision == precision;
  });
}

ProgramOptions with_precision(const ProgramOptions& options, const std::string& precision) {
  ProgramOptions result = options;
  for (const Offer& offer : kOffers) {
    if (offer.precision != precision) continue;
    // emplace keeps what the user wrote.
    result.engine_options[std::string(offer.engine)].emplace(offer.key, offer.value);
  }
  return result;
}

}  // namespace xrt
