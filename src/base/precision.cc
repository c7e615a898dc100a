// SPDX-License-Identifier: Apache-2.0
#include "xrt/precision.h"

#include <array>
#include <cstddef>

namespace xrt {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 4> kNames = {"f32", "tf32", "bf16", "f16"};

}  // namespace

std::string_view to_string(Precision precision) {
  return kNames.at(static_cast<std::size_t>(precision));
}

std::optional<Precision> parse_precision(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

}  // namespace xrt
